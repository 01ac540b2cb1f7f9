//! A consumer group with its topics and its handler.

use std::panic::AssertUnwindSafe;

use db::Tx;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::contract::message::Message;
use crate::failure::Failure;
use crate::handler::Handler;

/// A [`Handler::handle`] as a value.
pub type HandleFn = for<'a> fn(&'a mut Tx, &'a Message) -> BoxFuture<'a, Result<(), Failure>>;

/// A [`Handler`] as a value.
#[derive(Clone, Copy)]
pub struct Subscription {
    pub group: &'static str,
    pub topics: &'static [&'static str],
    handle: HandleFn,
}

impl Subscription {
    /// Returns the subscription of handler `H`.
    pub const fn of<H: Handler + 'static>() -> Self {
        Self::new(H::GROUP, H::TOPICS, |tx, message| Box::pin(H::handle(tx, message)))
    }

    /// Returns a subscription whose handler several services share, each in a group of its own.
    pub const fn new(group: &'static str, topics: &'static [&'static str], handle: HandleFn) -> Self {
        Self { group, topics, handle }
    }

    /// Applies a message. A panic of the handler rejects the message.
    pub(crate) async fn handle(&self, tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        AssertUnwindSafe((self.handle)(tx, message))
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(Failure::Rejected("the handler panicked".to_owned())))
    }
}
