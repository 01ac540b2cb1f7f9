//! Reservations for responses above 16 KiB. A response holds its reservation until its last chunk
//! is sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, EitherBody, MessageBody};
use actix_web::dev::ServiceResponse;
use actix_web::http::Method;
use actix_web::web::Bytes;
use actix_web::{HttpMessage, HttpRequest, HttpResponse};

use crate::limits::byte_budget::budget::{
    ByteBudget, ByteReservation, MAX_UNCOUNTED_BYTES, MAX_UNQUEUED_BYTES, OTHER_RESPONSES, READ_RESPONSES,
};
use crate::limits::caller::caller_key;
use crate::response::problem::Problem;

/// The size of the chunks in which a connection receives a body.
const CHUNK_BYTES: usize = 64 * 1024;

/// Reserves `bytes` for the response to `request` before its handler builds it.
///
/// A handler that may return several MiB calls this with its best estimate.
/// Without the call, concurrent requests build their responses first and are rejected afterwards.
/// Estimates up to 1 MiB need no reservation.
///
/// # Errors
/// `429` while the caller's share is used up, `503` when the budget is exhausted.
pub async fn reserve(request: &HttpRequest, bytes: usize) -> Result<(), Problem> {
    if bytes > MAX_UNQUEUED_BYTES {
        let caller = caller_key(request);
        let reservation = budget_for(request, caller.as_ref(), bytes).reserve(caller, bytes).await?;
        request.extensions_mut().insert(reservation);
    }
    Ok(())
}

/// Returns the budget that a response of this size to `request` counts against.
fn budget_for(request: &HttpRequest, caller: Option<&String>, bytes: usize) -> &'static ByteBudget {
    let is_read = caller.is_some() && request.method() == Method::GET;
    if is_read { READ_RESPONSES.for_size(bytes) } else { OTHER_RESPONSES.for_size(bytes) }
}

/// Attaches a reservation to the response, which holds it until its last chunk is sent.
///
/// # Errors
/// As [`reserve`], for `GET` only.
/// Any other request may have changed data, so its response is sent even over an exhausted budget.
pub(crate) fn attach_reservation<B: MessageBody + 'static>(
    response: ServiceResponse<B>,
) -> Result<ServiceResponse<EitherBody<B>>, (HttpRequest, Problem)> {
    let length = match response.response().body().size() {
        BodySize::Sized(length) => usize::try_from(length).unwrap_or(usize::MAX),
        BodySize::None | BodySize::Stream => 0,
    };
    if length <= MAX_UNCOUNTED_BYTES {
        return Ok(response.map_into_left_body());
    }
    let reserved = response.request().extensions_mut().remove::<ByteReservation<'static>>();
    let (request, response) = response.into_parts();
    let (response, body) = response.into_parts();
    let bytes = match body.try_into_bytes() {
        Ok(bytes) => bytes,
        // The body is chunked already, and the process holds a single copy of its bytes.
        Err(body) => return Ok(with_body(request, response, EitherBody::left(body))),
    };
    match reserved.map_or_else(|| reserve_existing(&request, length), Ok) {
        Ok(mut reservation) => {
            reservation.resize(length);
            let chunks = ChunkedBytes { rest: bytes, reservation: Some(reservation) };
            Ok(with_body(request, response, EitherBody::right(BoxBody::new(chunks))))
        }
        Err(problem) => Err((request, problem)),
    }
}

/// Reserves bytes for a response that a middleware is about to transform.
///
/// [`attach_reservation`] then attaches this reservation to the response.
///
/// # Errors
/// As [`attach_reservation`].
pub(crate) fn ensure_reservation(request: &HttpRequest, length: usize) -> Result<(), Problem> {
    if length > MAX_UNCOUNTED_BYTES && request.extensions().get::<ByteReservation<'static>>().is_none() {
        let reservation = reserve_existing(request, length)?;
        request.extensions_mut().insert(reservation);
    }
    Ok(())
}

/// Reserves bytes for a body that already exists. Callers can repeat a read, but not a change.
fn reserve_existing(request: &HttpRequest, length: usize) -> Result<ByteReservation<'static>, Problem> {
    let caller = caller_key(request);
    let budget = budget_for(request, caller.as_ref(), length);
    if request.method() == Method::GET {
        budget.try_reserve(caller, length)
    } else {
        budget.reserve_available(caller, length)
    }
}

fn with_body<B>(request: HttpRequest, response: HttpResponse<()>, body: B) -> ServiceResponse<B> {
    ServiceResponse::new(request, response.set_body(body))
}

/// A body that its connection receives in chunks, because actix copies each chunk into a buffer.
pub(crate) struct ChunkedBytes {
    rest: Bytes,
    reservation: Option<ByteReservation<'static>>,
}

impl ChunkedBytes {
    /// Wraps bytes of which the process holds a single copy for all callers.
    pub(crate) fn uncounted(bytes: Bytes) -> Self {
        Self { rest: bytes, reservation: None }
    }
}

impl MessageBody for ChunkedBytes {
    type Error = std::convert::Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.rest.len() as u64)
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let length = self.rest.len().min(CHUNK_BYTES);
        let chunk = self.rest.split_to(length);
        if self.rest.is_empty() {
            // Release with the last chunk, because its reader may send the next request at once.
            self.reservation = None;
        }
        Poll::Ready((!chunk.is_empty()).then_some(Ok(chunk)))
    }
}
