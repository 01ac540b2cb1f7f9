//! What a service does with messages.

use std::future::Future;

use db::Tx;

use crate::Message;

/// Why a message was not applied.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The database or a dependency is away, or somebody else was first: the message waits and is tried again, without limit.
    #[error("not now: {0}")]
    Transient(String),
    /// The database refused a statement: a table may be missing for a moment, another write may have been first,
    /// or the message has what cannot be stored. It is tried again, and dead-lettered if others get through.
    #[error("{0}")]
    Refused(String),
    /// It does not decode or a rule refuses it: it is dead-lettered.
    #[error("{0}")]
    Rejected(String),
}

impl From<db::Error> for Failure {
    fn from(error: db::Error) -> Self {
        match error {
            db::Error::Unavailable(reason) => Self::Transient(reason),
            db::Error::Query(_) => Self::Refused(format!("{:#}", anyhow::Error::from(error))),
        }
    }
}

/// Applies messages. It has no state of its own, so the one database that it can reach is the
/// transaction that it is given: what it writes is kept together with the receipt, or not at all.
pub trait Handler {
    /// The consumer group, `<service>.<producer>`; never changed, since the inbox is kept under it.
    const GROUP: &'static str;
    const TOPICS: &'static [&'static str];

    /// Applies one message.
    fn handle(tx: &mut Tx, message: &Message) -> impl Future<Output = Result<(), Failure>> + Send;
}
