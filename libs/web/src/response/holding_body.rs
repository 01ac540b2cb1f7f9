//! Response bodies that keep a value until actix-http drops them.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::web::Bytes;

/// A response body that holds a value. actix-http drops it after it has taken the last bytes.
pub(crate) struct HoldingBody<T> {
    body: BoxBody,
    _held: T,
}

impl<T> HoldingBody<T> {
    pub(crate) fn new(body: impl MessageBody + 'static, held: T) -> Self {
        Self { body: body.boxed(), _held: held }
    }
}

impl<T: Unpin> MessageBody for HoldingBody<T> {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(context)
    }
}
