//! Bodies that are not read to their end. One that has come whole is taken in after all, so that its connection can be
//! kept: actix closes that of any other. But it reads a chunked one on after the answer, however long it is, unless
//! somebody still holds it. So the answer holds it.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, EitherBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::error::PayloadError;
use actix_web::middleware::Next;
use actix_web::web::Bytes;
use actix_web::{Error, HttpMessage};
use futures_util::{FutureExt, Stream, StreamExt};

/// Keeps the body of the request until it is answered.
///
/// # Errors
/// Those of the handler.
pub(crate) async fn hold_body<B: MessageBody + 'static>(
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B>>, Error> {
    let mut body = match request.take_payload() {
        Payload::None => return Ok(next.call(request).await?.map_into_left_body()),
        payload => Held(Rc::new(RefCell::new(Some(payload)))),
    };
    request.set_payload(Payload::Stream { payload: Box::pin(body.clone()) });
    let response = next.call(request).await?;
    body.take_what_has_come().await;
    Ok(response.map_body(|_, answer| {
        EitherBody::right(BoxBody::new(Answer { answer: answer.boxed(), _body: body }))
    }))
}

/// The body of a request, until its end, for its handler to read and for its answer to hold.
#[derive(Clone)]
struct Held(Rc<RefCell<Option<Payload>>>);

impl Held {
    /// Refusing a request often takes less time than its body, which lies behind it in the same packet.
    async fn take_what_has_come(&mut self) {
        if self.0.borrow().is_some() {
            // The connection hands it out in between.
            tokio::task::yield_now().await;
            while let Some(Some(Ok(_))) = self.next().now_or_never() {}
        }
    }
}

impl Stream for Held {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut body = self.0.borrow_mut();
        let Some(payload) = &mut *body else { return Poll::Ready(None) };
        let polled = payload.poll_next_unpin(context);
        if matches!(polled, Poll::Ready(None)) {
            *body = None;
        }
        polled
    }
}

struct Answer {
    answer: BoxBody,
    _body: Held,
}

impl MessageBody for Answer {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.answer.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.answer).poll_next(context)
    }
}
