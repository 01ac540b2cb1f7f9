//! The trait that a service implements to consume messages.

use std::future::Future;

use db::Tx;

use crate::contract::message::Message;
use crate::failure::Failure;

/// Applies messages of some topics.
///
/// A handler has no state. It can reach only the transaction that it is given, so its writes and
/// the receipt in the inbox are committed together or not at all. [`Tx::shared`] has its settings.
pub trait Handler {
    /// The consumer group, `<service>.<producer>`. It never changes, since inbox rows carry it.
    const GROUP: &'static str;
    const TOPICS: &'static [&'static str];

    fn handle(tx: &mut Tx, message: &Message) -> impl Future<Output = Result<(), Failure>> + Send;
}
