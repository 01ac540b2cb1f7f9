//! The errors that end a relay session, and the count of repeated rejections.

use std::time::Duration;

use rdkafka::error::KafkaError;

/// The pause between two relay sessions.
pub(super) const SESSION_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// An event that the broker rejects with a possibly temporary error is parked after this number of
/// consecutive sessions.
const MAX_REJECTIONS: u32 = 5;

/// The reason why a relay session ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error(transparent)]
    Db(#[from] db::Error),
    #[error("the broker rejected event {id}: {error}")]
    Rejected { id: i64, error: KafkaError },
    #[error("the lease was lost")]
    Fenced,
}

impl From<diesel::result::Error> for SessionError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Db(error.into())
    }
}

/// The event whose rejection has ended the last sessions.
#[derive(Clone, Copy)]
pub(super) struct RepeatedRejection {
    id: i64,
    sessions: u32,
}

impl RepeatedRejection {
    /// Counts the session that ended with `error`. Returns `None` unless a rejection ended it.
    pub fn after(error: &SessionError, previous: Option<Self>) -> Option<Self> {
        let SessionError::Rejected { id, .. } = *error else { return None };
        let sessions = previous.filter(|previous| previous.id == id).map_or(0, |previous| previous.sessions);
        Some(Self { id, sessions: sessions + 1 })
    }

    /// Returns the pause before the next session. It is 1 s at first and doubles with each session,
    /// up to 32 s.
    pub fn backoff(&self) -> Duration {
        SESSION_RETRY_INTERVAL * (1 << (self.sessions - 1).min(MAX_REJECTIONS))
    }

    /// Returns true if one more rejection of event `id` reaches [`MAX_REJECTIONS`].
    pub fn is_last_attempt_of(self, id: i64) -> bool {
        self.id == id && self.sessions + 1 >= MAX_REJECTIONS
    }
}
