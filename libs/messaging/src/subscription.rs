//! A consumer group with its topics and its handler.

use std::panic::AssertUnwindSafe;

use db::Tx;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::contract::message::Message;
use crate::failure::Failure;
use crate::handler::{BatchHandler, DEFAULT_MAX_BATCH, Handler, TracedMessage};

/// A [`Handler::handle`] as a value.
pub type HandleFn = for<'a> fn(&'a mut Tx, &'a Message) -> BoxFuture<'a, Result<(), Failure>>;

/// A [`BatchHandler::handle_all`] as a value. A panic of the handler rejects all messages.
pub(crate) type HandleAllFn =
    for<'a> fn(&'a mut Tx, &'a [TracedMessage<'a>]) -> BoxFuture<'a, Result<(), Failure>>;

/// A [`Handler`] as a value.
#[derive(Clone, Copy)]
pub struct Subscription {
    pub group: &'static str,
    pub topics: &'static [&'static str],
    state_topics: &'static [&'static str],
    pub(crate) max_batch: usize,
    handle: HandleFn,
    /// `None` if each message is handled alone.
    pub(crate) handle_all: Option<HandleAllFn>,
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
            handle_all: None,
        }
    }

    /// Returns the subscription of handler `H`, which gets all messages of a transaction in one
    /// call.
    pub const fn of_batches<H: BatchHandler + 'static>() -> Self {
        let handle_all: HandleAllFn = |tx, messages| Box::pin(catch_panic(H::handle_all(tx, messages)));
        Self { handle_all: Some(handle_all), ..Self::of::<H>() }
    }

    /// Returns the subscription of a handler that several services share, each with its own group.
    /// All of its topics are [`STATE_TOPICS`](Handler::STATE_TOPICS).
    pub const fn of_state_topics(
        group: &'static str,
        topics: &'static [&'static str],
        handle: HandleFn,
    ) -> Self {
        Self { group, topics, state_topics: topics, max_batch: DEFAULT_MAX_BATCH, handle, handle_all: None }
    }

    /// Returns true if each message of the topic carries the whole state of its key.
    pub(crate) fn is_state_topic(&self, topic: &str) -> bool {
        self.state_topics.contains(&topic)
    }

    /// Applies a message. A panic of the handler rejects the message.
    pub(crate) async fn handle(&self, tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        catch_panic((self.handle)(tx, message)).await
    }
}

/// Turns a panic of a handler into a rejection.
async fn catch_panic(handling: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    AssertUnwindSafe(handling)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(Failure::Rejected("the handler panicked".to_owned())))
}
