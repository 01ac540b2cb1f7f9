//! The settings of this service, besides those that every service has.

use std::num::NonZeroU32;
use std::time::Duration;

use runtime::Env;

use crate::clients::livekit;
use crate::domain::Timing;

pub struct Settings {
    pub timing: Timing,
    /// LiveKit, or `None` if conferences are not available.
    pub livekit: Option<livekit::Config>,
    /// Interval of LiveKit probes, or `None` for neither probes nor the job `media-reconciliation`.
    pub media_probe_interval: Option<Duration>,
    /// Time for editing and deleting a message.
    pub edit_window: Duration,
    /// Maximum number of messages and edits of a user in an hour, or `None` for no limit.
    pub max_messages_per_hour: Option<NonZeroU32>,
    pub stream: StreamSettings,
}

pub struct StreamSettings {
    pub heartbeat_interval: Duration,
    pub poll_interval: Duration,
    pub retention: Duration,
    pub max_duration: Duration,
}

impl Settings {
    pub fn read(env: &mut Env) -> Option<Self> {
        let timing = read_timing(env);
        let edit_window = read_seconds(
            env,
            "MESSENGER_EDIT_WINDOW_SECONDS",
            86_400,
            "time for editing and deleting a message, in seconds",
        );
        let stream = StreamSettings::read(env);
        let max_messages_per_hour = env.with_default(
            "MESSENGER_MAX_MESSAGES_PER_PERSON_PER_HOUR",
            0,
            "maximum number of messages that a user sends or edits in an hour; 0 for no limit",
        );
        let livekit = livekit::Config::read(env);
        let media_probe_seconds = env.with_default(
            "MESSENGER_MEDIA_PROBE_SECONDS",
            10,
            "interval of LiveKit probes, in seconds; 0 for no probes and no comparison of rooms",
        );
        let media_probe_seconds = Some(media_probe_seconds?).filter(|seconds| *seconds > 0);
        Some(Self {
            timing: timing?,
            livekit: livekit?,
            media_probe_interval: media_probe_seconds.map(Duration::from_secs),
            edit_window: edit_window?,
            max_messages_per_hour: NonZeroU32::new(max_messages_per_hour?),
            stream: stream?,
        })
    }
}

impl StreamSettings {
    fn read(env: &mut Env) -> Option<Self> {
        let heartbeat_interval = read_seconds(
            env,
            "MESSENGER_STREAM_HEARTBEAT_SECONDS",
            15,
            "interval of heartbeat comments on a stream, in seconds; clients close a stream after 45 s without data",
        );
        let retention = read_seconds(
            env,
            "MESSENGER_STREAM_RETENTION_SECONDS",
            86_400,
            "retention of stream events, in seconds",
        );
        let max_duration =
            read_seconds(env, "MESSENGER_STREAM_MAX_SECONDS", 3_600, "longest time of a stream, in seconds");
        let poll_interval = env.with_default(
            "MESSENGER_STREAM_POLL_MS",
            const { NonZeroU32::new(1_000).unwrap() },
            "interval at which a replica reads new events for its streams if it receives no wake-up, in milliseconds",
        );
        Some(Self {
            heartbeat_interval: heartbeat_interval?,
            poll_interval: Duration::from_millis(poll_interval?.get().into()),
            retention: retention?,
            max_duration: max_duration?,
        })
    }
}

fn read_timing(env: &mut Env) -> Option<Timing> {
    let ring_timeout = read_seconds(
        env,
        "MESSENGER_RING_SECONDS",
        60,
        "ringing time of a conference and of an invitation, in seconds",
    );
    let empty_timeout =
        read_seconds(env, "MESSENGER_EMPTY_SECONDS", 30, "time that a conference may be empty, in seconds");
    let max_duration = read_seconds(
        env,
        "MESSENGER_MAX_SECONDS",
        14_400,
        "longest time of an Active conference, in seconds",
    );
    Some(Timing { ring_timeout: ring_timeout?, empty_timeout: empty_timeout?, max_duration: max_duration? })
}

/// Reads a positive number of seconds.
fn read_seconds(env: &mut Env, name: &'static str, default: u32, about: &'static str) -> Option<Duration> {
    let default = NonZeroU32::new(default)?;
    Some(Duration::from_secs(env.with_default(name, default, about)?.get().into()))
}
