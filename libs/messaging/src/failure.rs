//! The failures of handlers.

/// The reason why a message was not applied. The variant decides between a retry and a dead letter.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The database or a dependency is unavailable, PostgreSQL cancelled the transaction because of
    /// a conflict, or the outcome of a commit is unknown. The message is retried without a limit.
    /// The inbox drops it if it was applied.
    #[error("temporary failure: {0}")]
    Transient(String),
    /// PostgreSQL rejected a statement: a table is missing, a concurrent write has violated a
    /// constraint, or the message has data that cannot be stored. The message is retried twice and
    /// then dead-lettered. While every other message fails as well, it is retried without a limit.
    #[error("{0}")]
    Query(String),
    /// PostgreSQL cancelled a statement that took too long. A wait for one lock has another error,
    /// since `lock_timeout` is shorter. The message is dead-lettered after three attempts that
    /// failed while other messages were applied.
    #[error("{0}")]
    Slow(String),
    /// The message does not decode, or a rule rejects it. It is dead-lettered at once.
    #[error("{0}")]
    Rejected(String),
}

impl From<db::Error> for Failure {
    fn from(error: db::Error) -> Self {
        let is_slow = error.is_statement_timeout();
        match error {
            db::Error::Unavailable(reason) if is_slow => Self::Slow(reason),
            db::Error::Unavailable(reason) | db::Error::OutcomeUnknown(reason) => Self::Transient(reason),
            db::Error::Query(_) => Self::Query(format!("{:#}", anyhow::Error::from(error))),
        }
    }
}
