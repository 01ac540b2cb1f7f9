//! The state of a connection that its stream and the middlewares of its requests share.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Waker;

use actix_web::Error;
use actix_web::HttpMessage;
use actix_web::body::MessageBody;
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::header::CONTENT_LENGTH;
use actix_web::middleware::Next;

use crate::response::holding_body::HoldingBody;
use crate::server::framing::ChunkedBody;

/// The maximum size of a request head, as in nginx and Node.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The received bytes of a body that actix-http keeps for a handler.
///
/// Half of this size would cost throughput, because actix-http keeps 32 KiB for a handler before it
/// waits.
const MAX_UNREAD_BYTES: usize = 64 * 1024;

/// The request of a connection, and the bytes that actix-http has and that no handler has taken.
///
/// actix-http keeps up to 128 KiB of input for each connection, and has no setting for it. It
/// parses all requests in its input at once.
#[derive(Clone, Default)]
pub(crate) struct Exchange(Rc<State>);

#[derive(Default)]
struct State {
    phase: Cell<Phase>,
    /// True if the connection has had a whole request head.
    has_begun: Cell<bool>,
    /// True until the connection has taken the new allowance of the current request's caller.
    has_new_allowance: Cell<bool>,
    unread: Cell<usize>,
    body: Cell<Body>,
    discards_input: Cell<bool>,
    /// The task of the connection, while it keeps input.
    paused: Cell<Option<Waker>>,
}

/// The phase of a connection's current request.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    None,
    /// The handler has not returned a response.
    Handling,
    /// actix-http takes the response.
    Sending,
    /// actix-http has the whole response. The kernel has not accepted all of it.
    Flushing,
}

/// The rest of a request body, which actix-http has not received.
#[derive(Clone, Copy, Default)]
enum Body {
    #[default]
    None,
    Bytes(usize),
    Chunks(ChunkedBody),
}

impl Body {
    fn of(request: &ServiceRequest) -> Self {
        if matches!(request.parts().1, Payload::None) {
            return Self::None;
        }
        if request.chunked().unwrap_or_default() {
            return Self::Chunks(ChunkedBody::Size(0));
        }
        let length = request.headers().get(CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.trim().parse().ok());
        // Without a length, the connection belongs to another protocol.
        Self::Bytes(length.unwrap_or(usize::MAX))
    }
}

/// The current request of a connection. The body of its response holds it.
pub(super) struct CurrentRequest(Exchange);

impl Drop for CurrentRequest {
    fn drop(&mut self) {
        let Self(exchange) = self;
        exchange.0.phase.set(Phase::Flushing);
    }
}

/// Follows a request of a connection until its response is sent.
pub(super) async fn follow_exchange<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<HoldingBody<Option<CurrentRequest>>>, Error> {
    let exchange = request.conn_data::<Exchange>();
    let current = exchange.map(|exchange| exchange.begin(Body::of(&request)));
    let response = next.call(request).await?;
    if let Some(CurrentRequest(exchange)) = &current {
        exchange.0.phase.set(Phase::Sending);
        // Nothing reads the rest.
        exchange.0.body.set(Body::None);
    }
    Ok(response.map_body(|_, body| HoldingBody::new(body, current)))
}

impl Exchange {
    /// Begins a request, whose head is no longer unread.
    fn begin(&self, body: Body) -> CurrentRequest {
        let Self(state) = self;
        state.phase.set(Phase::Handling);
        state.has_begun.set(true);
        state.has_new_allowance.set(true);
        state.body.set(body);
        state.discards_input.set(false);
        state.unread.set(0);
        self.resume();
        CurrentRequest(self.clone())
    }

    /// Returns true from the beginning of a request until the kernel has accepted its response.
    pub(super) fn is_active(&self) -> bool {
        self.0.phase.get() != Phase::None
    }

    /// Ends the current request if actix-http has its whole response. Returns true if it ends.
    pub(super) fn end_flushed(&self) -> bool {
        let is_flushed = self.0.phase.get() == Phase::Flushing;
        if is_flushed {
            self.0.phase.set(Phase::None);
            self.resume();
        }
        is_flushed
    }

    /// Returns true once for each request, whose caller has a new allowance for the response.
    pub(super) fn take_allowance(&self) -> bool {
        self.0.has_new_allowance.take()
    }

    /// Returns true if the connection has had a whole request head.
    pub(super) fn has_begun(&self) -> bool {
        self.0.has_begun.get()
    }

    /// Counts bytes of a request head.
    pub(super) fn receive_head(&self, bytes: usize) {
        self.0.unread.set(self.0.unread.get().saturating_add(bytes));
    }

    /// Returns the length of the part of the body at the beginning of `input` that actix-http may
    /// receive now, and counts it.
    pub(super) fn receive_body(&self, input: &[u8]) -> usize {
        let Self(state) = self;
        if self.is_full() {
            return 0;
        }
        let mut body = state.body.get();
        let length = match &mut body {
            Body::None => 0,
            Body::Bytes(rest) => {
                let length = input.len().min(*rest);
                *rest -= length;
                length
            }
            Body::Chunks(body) => body.pass(input),
        };
        state.body.set(body);
        state.unread.set(state.unread.get().saturating_add(length));
        length
    }

    /// Stops counting bytes that a handler has read from its body.
    pub(crate) fn take(&self, bytes: usize) {
        let was_full = self.is_full();
        self.0.unread.set(self.0.unread.get().saturating_sub(bytes));
        if was_full && !self.is_full() {
            self.resume();
        }
    }

    /// Stops counting all bytes, because a handler has read all that there is.
    pub(crate) fn take_all(&self) {
        self.take(usize::MAX);
    }

    /// Stops counting, because actix-http drops the rest of an unread body and closes the
    /// connection.
    pub(crate) fn discard_input(&self) {
        self.0.discards_input.set(true);
        self.resume();
    }

    pub(super) fn discards_input(&self) -> bool {
        self.0.discards_input.get()
    }

    /// Returns true if actix-http has as much of a head or a body as it may keep.
    pub(super) fn is_full(&self) -> bool {
        let max = if self.0.phase.get() == Phase::Handling { MAX_UNREAD_BYTES } else { MAX_HEAD_BYTES };
        self.0.unread.get() >= max
    }

    /// Wakes `connection` as soon as actix-http may receive more.
    pub(super) fn pause(&self, connection: Waker) {
        self.0.paused.set(Some(connection));
    }

    fn resume(&self) {
        if let Some(connection) = self.0.paused.take() {
            connection.wake();
        }
    }
}
