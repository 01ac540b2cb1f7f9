//! A consumer group with its topics and its handler.

use std::panic::AssertUnwindSafe;

use db::Tx;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::contract::message::Message;
use crate::failure::Failure;
use crate::handler::{DEFAULT_MAX_BATCH, Handler};

/// A [`Handler::handle`] as a value.
pub type HandleFn = for<'a> fn(&'a mut Tx, &'a Message) -> BoxFuture<'a, Result<(), Failure>>;

/// A [`Handler`] as a value.
#[derive(Clone, Copy)]
pub struct Subscription {
    pub group: &'static str,
    pub topics: &'static [&'static str],
    state_topics: &'static [&'static str],
    pub(crate) max_batch: usize,
    handle: HandleFn,
}

impl Subscription {
    /// Returns the subscription of handler `H`.
    pub const fn of<H: Handler + 'static>() -> Self {
        let handle: HandleFn = |tx, message| Box::pin(H::handle(tx, message));
        Self {
            group: H::GROUP,
            topics: H::TOPICS,
            state_topics: H::STATE_TOPICS,
            max_batch: H::MAX_BATCH,
            handle,
        }
    }

    /// Returns the subscription of a handler that several services share, each with its own group.
    /// All of its topics are [`STATE_TOPICS`](Handler::STATE_TOPICS).
    pub const fn to_states(group: &'static str, topics: &'static [&'static str], handle: HandleFn) -> Self {
        Self { group, topics, state_topics: topics, max_batch: DEFAULT_MAX_BATCH, handle }
    }

    /// Returns true if each message of the topic carries the whole state of its key.
    pub(crate) fn is_state_topic(&self, topic: &str) -> bool {
        self.state_topics.contains(&topic)
    }

    /// Applies a message. A panic of the handler rejects the message.
    pub(crate) async fn handle(&self, tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        AssertUnwindSafe((self.handle)(tx, message))
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(Failure::Rejected("the handler panicked".to_owned())))
    }
}
