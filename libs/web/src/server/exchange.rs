//! The state of a connection that its stream and the middlewares of its requests share.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Waker;

/// The maximum size of a request head, as in nginx and Node.
pub(crate) const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The received bytes that a connection keeps for a request in flight, before it stops reading.
///
/// Half of this size would cost throughput, because actix-http passes 32 KiB to a handler at once.
const MAX_UNREAD_BYTES: usize = 64 * 1024;

/// The requests of a connection, and the received bytes that no request has taken yet.
///
/// actix-http keeps up to 128 KiB of such bytes for each connection, and has no setting for it.
#[derive(Clone, Default)]
pub(crate) struct Exchange(Rc<State>);

#[derive(Default)]
struct State {
    /// The number of requests whose handlers have not returned a response.
    in_flight: Cell<usize>,
    has_begun: Cell<bool>,
    unread: Cell<usize>,
    discards_input: Cell<bool>,
    /// The task of the connection, while it does not read.
    paused: Cell<Option<Waker>>,
}

/// A request whose handler has not returned a response. Dropping it ends the request.
pub(crate) struct Handling(Exchange);

impl Drop for Handling {
    fn drop(&mut self) {
        let Self(Exchange(state)) = self;
        state.in_flight.set(state.in_flight.get() - 1);
        self.0.resume();
    }
}

impl Exchange {
    /// Begins a request, whose head is no longer unread.
    pub(crate) fn begin(&self) -> Handling {
        let Self(state) = self;
        state.in_flight.set(state.in_flight.get() + 1);
        state.has_begun.set(true);
        state.discards_input.set(false);
        state.unread.set(0);
        self.resume();
        Handling(self.clone())
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        self.0.in_flight.get() > 0
    }

    /// Returns true if the connection has had a whole request head.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.has_begun.get()
    }

    /// Counts received bytes.
    pub(crate) fn receive(&self, bytes: usize) {
        self.0.unread.set(self.0.unread.get().saturating_add(bytes));
    }

    /// Stops counting bytes that a handler has read from its body.
    pub(crate) fn take(&self, bytes: usize) {
        self.0.unread.set(self.0.unread.get().saturating_sub(bytes));
        self.resume();
    }

    /// Stops counting all bytes, because a handler waits for more of its body.
    pub(crate) fn take_all(&self) {
        self.take(usize::MAX);
    }

    /// Stops counting, because actix-http drops the rest of an unread body and closes the
    /// connection.
    pub(crate) fn discard_input(&self) {
        self.0.discards_input.set(true);
    }

    /// Returns true while the connection must not read more.
    pub(crate) fn is_full(&self) -> bool {
        let max = if self.is_in_flight() { MAX_UNREAD_BYTES } else { MAX_HEAD_BYTES };
        self.0.unread.get() >= max && !self.0.discards_input.get()
    }

    /// Wakes `connection` as soon as a request begins, ends or reads its body.
    pub(crate) fn pause(&self, connection: Waker) {
        self.0.paused.set(Some(connection));
    }

    fn resume(&self) {
        if let Some(connection) = self.0.paused.take() {
            connection.wake();
        }
    }
}
