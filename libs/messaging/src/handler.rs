//! The trait that a service implements to consume messages.

use std::future::Future;

use db::Tx;
use tracing::Span;

use crate::contract::message::Message;
use crate::failure::Failure;

/// Spreads the cost of a commit over many messages. Larger batches are hardly faster, and a failure
/// repeats more messages.
pub(crate) const DEFAULT_MAX_BATCH: usize = 64;

/// Applies messages of some topics.
///
/// A handler has no state. It can reach only the transaction in its argument. Its writes and the
/// receipt in the inbox are therefore committed together or not at all. [`Tx::shared`] returns the
/// settings of the handler.
pub trait Handler {
    /// The consumer group, `<service>.<producer>`. It never changes, since inbox rows carry it.
    const GROUP: &'static str;
    const TOPICS: &'static [&'static str];
    /// The topics among [`TOPICS`](Self::TOPICS) whose messages carry the whole state of their key
    /// and a version. The handler keeps the newest version.
    ///
    /// A message of such a topic is applied even if an earlier one of its key is a dead letter. It
    /// contains the change of the earlier message, too.
    const STATE_TOPICS: &'static [&'static str] = &[];
    /// The maximum number of messages of a partition that share a transaction.
    ///
    /// Set 1 if the handler locks rows that messages of other keys lock, too. Transactions with
    /// many messages would lock these rows in different orders and wait for each other. A
    /// [`BatchHandler`] can lock the rows of a batch in one order instead.
    const MAX_BATCH: usize = DEFAULT_MAX_BATCH;

    fn handle(tx: &mut Tx, message: &Message) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// A [`Handler`] that applies all messages of a transaction in one call, with statements for many
/// rows.
pub trait BatchHandler: Handler {
    /// Applies messages of one partition, with the result that [`Handler::handle`] has for each of
    /// them in their order. The messages are new to the group.
    ///
    /// A failure rolls all of them back, and each is then processed alone.
    fn handle_all(
        tx: &mut Tx,
        messages: &[TracedMessage<'_>],
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// A message with the span of its processing, which belongs to the trace of its change.
#[derive(Clone)]
pub struct TracedMessage<'m> {
    pub message: &'m Message,
    span: Span,
}

impl<'m> TracedMessage<'m> {
    /// Returns a message that is processed in the current span.
    pub fn in_current_span(message: &'m Message) -> Self {
        Self { message, span: Span::current() }
    }

    pub(crate) fn new(message: &'m Message, span: &Span) -> Self {
        Self { message, span: span.clone() }
    }

    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Calls `effect` in the span of the message, so that events and log lines have its trace.
    pub fn in_scope<T>(&self, effect: impl FnOnce() -> T) -> T {
        self.span.in_scope(effect)
    }
}
