//! Answers on their way out: what those above 16 KiB take has room, from when they are there until they have been sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, EitherBody, MessageBody};
use actix_web::dev::ServiceResponse;
use actix_web::http::Method;
use actix_web::web::Bytes;
use actix_web::{HttpMessage, HttpRequest, HttpResponse};

use crate::limits::byte_budget::budget::{LARGE, OTHERS, Place, READERS, Room, SMALL};
use crate::limits::caller::caller;
use crate::response::problem::Problem;

/// What is handed to a connection at once; the next when that has left.
const SLICE: usize = 64 * 1024;

/// Waits for room for the answer to `request` before it is made, which takes so many bytes as far as is known. What may
/// be some MiB and is not asked for beforehand is made by as many as want it at once, to be refused then. A short one
/// needs no room.
///
/// # Errors
/// `429` while answers to the caller are under way that are as large as its share, `503` when there is no room.
pub async fn reserve(request: &HttpRequest, bytes: usize) -> Result<(), Problem> {
    if bytes > LARGE {
        let caller = caller(request);
        let place = room(request, caller.as_ref()).wait(caller, bytes).await?;
        request.extensions_mut().insert(place);
    }
    Ok(())
}

/// The room for answers to whoever asks.
fn room(request: &HttpRequest, caller: Option<&String>) -> &'static Room {
    if caller.is_some() && request.method() == Method::GET { &READERS } else { &OTHERS }
}

/// The answer with its room.
///
/// # Errors
/// As [`reserve`]. What has changed something is answered all the same while there is room for nobody.
pub(crate) fn settle<B: MessageBody + 'static>(
    response: ServiceResponse<B>,
) -> Result<ServiceResponse<EitherBody<B>>, (HttpRequest, Problem)> {
    let length = match response.response().body().size() {
        BodySize::Sized(length) => usize::try_from(length).unwrap_or(usize::MAX),
        BodySize::None | BodySize::Stream => 0,
    };
    if length <= SMALL {
        return Ok(response.map_into_left_body());
    }
    let reserved = response.request().extensions_mut().remove::<Place<'static>>();
    let (request, response) = response.into_parts();
    let (response, body) = response.into_parts();
    let bytes = match body.try_into_bytes() {
        Ok(bytes) => bytes,
        // It is in slices already, and of something that a process has once.
        Err(body) => return Ok(with_body(request, response, EitherBody::left(body))),
    };
    match reserved.map_or_else(|| unreserved(&request, length), Ok) {
        Ok(mut place) => {
            place.shrink_to(length);
            place.fill_to(length);
            let slices = Slices { rest: bytes, place: Some(place) };
            Ok(with_body(request, response, EitherBody::right(BoxBody::new(slices))))
        }
        Err(problem) => Err((request, problem)),
    }
}

/// A read may be repeated, a change has been made.
/// Room for an answer that is still worked on; [`settle`] finds it.
///
/// # Errors
/// As for any answer that is there.
pub(crate) fn hold(request: &HttpRequest, length: usize) -> Result<(), Problem> {
    if length > SMALL && request.extensions().get::<Place<'static>>().is_none() {
        let place = unreserved(request, length)?;
        request.extensions_mut().insert(place);
    }
    Ok(())
}

fn unreserved(request: &HttpRequest, length: usize) -> Result<Place<'static>, Problem> {
    let caller = caller(request);
    let room = room(request, caller.as_ref());
    if request.method() == Method::GET { room.take(caller, length) } else { room.squeeze(caller, length) }
}

fn with_body<B>(request: HttpRequest, response: HttpResponse<()>, body: B) -> ServiceResponse<B> {
    ServiceResponse::new(request, response.set_body(body))
}

/// A body that is handed to its connection in slices: actix copies each into the connection's own buffer.
pub(crate) struct Slices {
    rest: Bytes,
    place: Option<Place<'static>>,
}

impl Slices {
    /// Of something that a process has once, whoever asks for it.
    pub(crate) fn of(bytes: Bytes) -> Self {
        Self { rest: bytes, place: None }
    }
}

impl MessageBody for Slices {
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
