//! Request bodies that a handler does not read to the end.
//!
//! actix closes a connection with an unread body after the response, even if the rest of the body
//! has arrived by then. This middleware therefore reads the part that has arrived.
//!
//! If the rest has not arrived, actix should close the connection. It does so only while the body
//! exists. Once a chunked body is dropped, actix reads it to its end instead, whatever its length.
//! The response therefore holds the body.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::body::{BoxBody, EitherBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::error::PayloadError;
use actix_web::middleware::Next;
use actix_web::web::Bytes;
use actix_web::{Error, HttpMessage};
use futures_util::{FutureExt, Stream, StreamExt};

use crate::response::holding_body::HoldingBody;
use crate::server::exchange::Exchange;

/// The maximum number of turns in which a connection receives the rest of a body. Each turn has at
/// least 16 KiB if they have arrived.
const MAX_TURNS: usize = 4;

/// Holds the request's body until the response is sent, and reads the part that has arrived.
pub(crate) async fn hold_request_body<B: MessageBody + 'static>(
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B>>, Error> {
    let mut body = match request.take_payload() {
        Payload::None => return Ok(next.call(request).await?.map_into_left_body()),
        payload => SharedBody {
            payload: Rc::new(RefCell::new(Some(payload))),
            exchange: request.conn_data::<Exchange>().cloned().unwrap_or_default(),
        },
    };
    request.set_payload(Payload::Stream { payload: Box::pin(body.clone()) });
    let response = next.call(request).await?;
    body.read_received().await;
    Ok(response
        .map_body(|_, response| EitherBody::right(BoxBody::new(HoldingBody::new(response, HeldBody(body))))))
}

/// A request body that the handler reads and the response holds. It is dropped once it is read.
#[derive(Clone)]
struct SharedBody {
    payload: Rc<RefCell<Option<Payload>>>,
    exchange: Exchange,
}

impl SharedBody {
    /// Reads the part that has arrived.
    ///
    /// A request is often rejected before the connection has parsed the body from the same packet.
    async fn read_received(&mut self) {
        for _ in 0..MAX_TURNS {
            if self.payload.borrow().is_none() {
                return;
            }
            // Yield, so that the connection's task reads and parses the received bytes. It polls a
            // new handler twice before it reads.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            let mut has_read = false;
            while let Some(Some(Ok(_))) = self.next().now_or_never() {
                has_read = true;
            }
            if !has_read {
                return;
            }
        }
    }
}

impl Stream for SharedBody {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut body = self.payload.borrow_mut();
        let Some(payload) = &mut *body else { return Poll::Ready(None) };
        let polled = payload.poll_next_unpin(context);
        match &polled {
            Poll::Ready(Some(Ok(chunk))) => self.exchange.take(chunk.len()),
            Poll::Ready(None) => {
                *body = None;
                // The framing of a chunked body is not in its chunks.
                self.exchange.take_all();
            }
            Poll::Ready(Some(Err(_))) => {}
            Poll::Pending => self.exchange.take_all(),
        }
        polled
    }
}

/// The request body that a response holds.
struct HeldBody(SharedBody);

impl Drop for HeldBody {
    fn drop(&mut self) {
        let Self(body) = self;
        if body.payload.borrow().is_some() {
            body.exchange.discard_input();
        }
    }
}
