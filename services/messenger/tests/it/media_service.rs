//! Services with the fake LiveKit of the test kit.

use std::sync::OnceLock;

use messenger::Service;
use testkit::livekit::LiveKit;
use testkit::service::Running;

/// Returns the LiveKit of the service that most tests share.
pub fn livekit() -> &'static LiveKit {
    static LIVEKIT: OnceLock<LiveKit> = OnceLock::new();
    LIVEKIT.get_or_init(LiveKit::start)
}

/// Starts another replica of the service that most tests share.
pub fn replica(settings: &[(&str, &str)]) -> Running {
    let url = crate::service().database_url.clone();
    start(livekit(), &[settings, &[("DATABASE_URL", url.as_str())]].concat())
}

/// Starts a service with this LiveKit and further settings.
pub fn start(livekit: &LiveKit, settings: &[(&str, &str)]) -> Running {
    let own = livekit.settings();
    let own = own.iter().map(|(name, value)| (*name, value.as_str()));
    // Without probes the service regards LiveKit as available.
    let defaults = [("MESSENGER_MEDIA_PROBE_SECONDS", "0")];
    let all: Vec<_> = own.chain(defaults).chain(settings.iter().copied()).collect();
    Running::start::<Service>(&all)
}
