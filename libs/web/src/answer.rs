//! Answers that may be large: a few are made and sent at once.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, MessageBody};
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;

use crate::Problem;
use crate::rate_limit::caller;
use crate::room::{AUTHORS, LARGE, Place, READERS, Room};

/// What is handed to a connection at once; the next when that has left.
const SLICE: usize = 64 * 1024;

/// Room for an answer, taken before what it tells is read, and kept until it is sent. A small one needs none.
pub struct AnswerRoom(Option<Place<'static>>);

impl AnswerRoom {
    /// For an answer to `request`, which reads so many bytes.
    ///
    /// # Errors
    /// `429` while the caller's last large answer is under way, `503` when there is no room.
    pub async fn for_reader(request: &HttpRequest, bytes: usize) -> Result<Self, Problem> {
        Self::take(&READERS, request, bytes).await
    }

    /// For an answer to `request`, which changes something of so many bytes. Readers do not take this room.
    ///
    /// # Errors
    /// As [`for_reader`](Self::for_reader).
    pub async fn for_author(request: &HttpRequest, bytes: usize) -> Result<Self, Problem> {
        Self::take(&AUTHORS, request, bytes).await
    }

    async fn take(room: &'static Room, request: &HttpRequest, bytes: usize) -> Result<Self, Problem> {
        if bytes <= LARGE {
            return Ok(Self(None));
        }
        let places = u32::try_from(bytes.div_ceil(LARGE)).unwrap_or(u32::MAX);
        Ok(Self(Some(room.enter(caller(request), places).await?)))
    }

    /// `200` with `value` as JSON.
    pub fn answer(self, value: &impl Serialize) -> HttpResponse {
        let response = HttpResponse::Ok().json(value);
        let Some(place) = self.0 else { return response };
        response.map_body(|_, body| match body.try_into_bytes() {
            Ok(rest) => Large { rest, place: Some(place) }.boxed(),
            Err(body) => body,
        })
    }
}

/// What is left of a large body.
struct Large {
    rest: Bytes,
    place: Option<Place<'static>>,
}

impl MessageBody for Large {
    type Error = std::convert::Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.rest.len() as u64)
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let length = self.rest.len().min(SLICE);
        let slice = self.rest.split_to(length);
        if self.rest.is_empty() {
            // With the last of it, not after: its reader may be back at once.
            self.place = None;
        }
        Poll::Ready((!slice.is_empty()).then_some(Ok(slice)))
    }
}
