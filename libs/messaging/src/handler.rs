//! What a service does with the messages of one producer.

use std::future::Future;

use db::Tx;

use crate::Message;

/// Why a message was not applied.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The database or a dependency is away: the message waits and is tried again, without limit.
    #[error("not now: {0}")]
    Transient(String),
    /// It does not decode or a rule refuses it: it is dead-lettered.
    #[error("{0}")]
    Rejected(String),
}

impl From<db::Error> for Failure {
    fn from(error: db::Error) -> Self {
        match error {
            db::Error::Unavailable(reason) => Self::Transient(reason),
            db::Error::Query(_) => Self::Rejected(format!("{:#}", anyhow::Error::from(error))),
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
