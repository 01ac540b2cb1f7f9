//! What the environment configures beside what it does for all services.

use std::num::NonZeroU32;
use std::time::Duration;

use runtime::Env;

use crate::clients::livekit;
use crate::domain::Timing;

pub struct Settings {
    pub timing: Timing,
    /// `None`: there is no sound and no picture, so nobody is rung.
    pub livekit: Option<livekit::Config>,
    /// How often LiveKit is asked whether it lives; `None`: never.
    pub media_probe: Option<Duration>,
    /// How long a message may be edited and deleted.
    pub edit_window: Duration,
    pub stream: StreamSettings,
}

pub struct StreamSettings {
    pub heartbeat: Duration,
    pub poll: Duration,
    pub retention: Duration,
    pub longest: Duration,
}

impl Settings {
    pub fn read(env: &mut Env) -> Option<Self> {
        let mut seconds = |name, default: u32, about| {
            let default = NonZeroU32::new(default)?;
            Some(Duration::from_secs(env.or(name, default, about)?.get().into()))
        };
        let ring = seconds("MESSENGER_RING_SECONDS", 60, "how long a call and an invitation ring");
        let empty = seconds("MESSENGER_EMPTY_SECONDS", 30, "how long a conference may be without anybody");
        let longest = seconds("MESSENGER_MAX_SECONDS", 14_400, "how long a conference may last");
        let edit_window =
            seconds("MESSENGER_EDIT_WINDOW_SECONDS", 86_400, "how long a message may be edited and deleted");
        let heartbeat =
            seconds("MESSENGER_STREAM_HEARTBEAT_SECONDS", 15, "how often a stream says that it is alive");
        let retention =
            seconds("MESSENGER_STREAM_RETENTION_SECONDS", 86_400, "how long a stream can be gone on with");
        let stream_longest = seconds("MESSENGER_STREAM_MAX_SECONDS", 3_600, "how long a stream lasts");
        let poll = env.or(
            "MESSENGER_STREAM_POLL_MS",
            const { NonZeroU32::new(250).unwrap() },
            "how often a replica asks what others have committed for its streams, in milliseconds",
        );
        let stream = StreamSettings {
            heartbeat: heartbeat?,
            poll: Duration::from_millis(poll?.get().into()),
            retention: retention?,
            longest: stream_longest?,
        };
        let livekit = livekit::Config::read(env);
        let media_probe = env.or(
            "MESSENGER_MEDIA_PROBE_SECONDS",
            10,
            "how often LiveKit is asked whether it lives, in seconds; 0: never",
        );
        let timing = Timing { ring: ring?, empty: empty?, max: longest? };
        Some(Self {
            timing,
            livekit: livekit?,
            media_probe: Some(media_probe?).filter(|probe| *probe > 0).map(Duration::from_secs),
            edit_window: edit_window?,
            stream,
        })
    }
}
