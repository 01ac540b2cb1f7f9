//! The state that handlers and jobs share.

use ::db::Db;
use tokio::sync::Semaphore;

use crate::clients::LiveKit;
use crate::ops::conference::ConferenceContext;
use crate::settings::Settings;
use crate::stream::Hub;

/// The shared state of a replica.
pub struct App {
    pub db: Db,
    /// LiveKit, or `None` if it is not configured.
    pub livekit: Option<LiveKit>,
    pub settings: Settings,
    pub streams: Hub,
    /// Permits for streams that read missed events. After a restart thousands of clients reconnect
    /// at once, and must leave connections of the pool to requests.
    pub catch_ups: Semaphore,
}

/// Maximum number of streams that read missed events at a time: half of the default pool.
pub const MAX_CONCURRENT_CATCH_UPS: usize = 8;

impl App {
    /// Returns LiveKit, unless it is not configured or the last probes of this process failed.
    pub fn available_livekit(&self) -> Option<&LiveKit> {
        self.livekit.as_ref().filter(|livekit| livekit.is_available())
    }

    /// Returns the context in which a request changes a conference.
    pub fn conference_context(&self) -> ConferenceContext<'_> {
        ConferenceContext { timing: Some(&self.settings.timing), livekit: self.available_livekit() }
    }
}
