//! Request bodies as bytes.

use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::header::CONTENT_LENGTH;
use actix_web::web::{Bytes, BytesMut};
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, timeout_at};

use crate::limits::byte_budget::budget::{
    ByteReservation, LARGE_BODIES, MAX_UNCOUNTED_BYTES, MAX_UNQUEUED_BYTES, SMALL_BODIES,
};
use crate::limits::caller::caller_key;
use crate::request::diagnosis::malformed;
use crate::request::keyed::store_body_hash;
use crate::response::problem::Problem;

/// The time in which a body of any size may arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The transfer rate at which [`BODY_TIMEOUT`] is extended. A slower sender gets 408.
const MIN_BODY_BYTES_PER_SECOND: u32 = 256 * 1024;
/// The same rate for the part of a body above [`MAX_UNQUEUED_BYTES`]. Eight senders of such bodies
/// make all others wait, so each of them must be quick.
const MIN_LARGE_BODY_BYTES_PER_SECOND: u32 = 1024 * 1024;

/// A request body of at most `LIMIT` bytes, unparsed and of any media type, for signed requests.
///
/// # Errors
/// `400` for a broken body, `408` when the body arrives too slowly, `413` above the limit.
/// `429` when the caller's share of the byte budget is used up, `503` when the budget is exhausted.
pub struct RawBody<const LIMIT: usize>(pub Bytes);

impl<const LIMIT: usize> FromRequest for RawBody<LIMIT> {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move { Ok(Self(read_body::<LIMIT>(&request, payload).await?.freeze())) })
    }
}

/// The reservation of a body. The request holds it as an extension until the response.
#[derive(Default)]
struct BodyReservation(Option<ByteReservation<'static>>);

impl BodyReservation {
    /// Counts `received` bytes of a body up to [`MAX_UNQUEUED_BYTES`], without waiting.
    fn count(&mut self, request: &HttpRequest, received: usize) -> Result<(), Problem> {
        match &mut self.0 {
            Some(reservation) => reservation.try_grow_to(received)?,
            None => self.0 = Some(SMALL_BODIES.try_reserve(caller_key(request), received)?),
        }
        Ok(())
    }

    /// Counts a body above [`MAX_UNQUEUED_BYTES`].
    async fn count_large(&mut self, request: &HttpRequest) -> Result<(), Problem> {
        // Release before the wait, so that a waiting body holds no bytes of a budget.
        self.0 = None;
        self.0 = Some(LARGE_BODIES.reserve(caller_key(request), LARGE_BODIES.caller_share()).await?);
        Ok(())
    }
}

/// Reads a body, which holds a reservation until the response.
///
/// A body up to 1 MiB counts by the bytes that have arrived, not by its `Content-Length`.
/// [`LARGE_BODIES`] counts a larger one as 8 MiB.
///
/// A body up to 16 KiB does not count if it arrives at once. If it arrives in parts, its sender
/// decides how long it takes memory, so it counts from its first part.
pub(super) async fn read_body<const LIMIT: usize>(
    request: &HttpRequest,
    mut payload: Payload,
) -> Result<BytesMut, Problem> {
    let content_length = content_length(request);
    if content_length.is_some_and(|length| length > LIMIT) {
        return Err(Problem::payload_too_large(LIMIT));
    }
    let mut body = BytesMut::new();
    let mut reservation = BodyReservation::default();
    let mut deadline = Instant::now() + BODY_TIMEOUT;
    loop {
        let chunk = if let Some(received) = payload.next().now_or_never() {
            received
        } else {
            if !body.is_empty() && body.len() <= MAX_UNQUEUED_BYTES {
                reservation.count(request, body.len())?;
            }
            timeout_at(deadline, payload.next()).await.map_err(|_| Problem::request_timeout())?
        };
        let Some(chunk) = chunk else { break };
        let chunk = chunk.map_err(|_| Problem::validation_failed(vec![malformed()]))?;
        let length = body.len() + chunk.len();
        if length > LIMIT {
            return Err(Problem::payload_too_large(LIMIT));
        }
        let mut rate = MIN_BODY_BYTES_PER_SECOND;
        if length > MAX_UNQUEUED_BYTES {
            rate = MIN_LARGE_BODY_BYTES_PER_SECOND;
            if body.len() <= MAX_UNQUEUED_BYTES {
                let started = Instant::now();
                reservation.count_large(request).await?;
                // The wait for the budget does not count against the sender.
                deadline += started.elapsed();
                body.reserve(content_length.unwrap_or(length).saturating_sub(body.len()));
            }
        } else if length > MAX_UNCOUNTED_BYTES {
            reservation.count(request, length)?;
        }
        deadline += Duration::from_secs(chunk.len() as u64) / rate;
        body.extend_from_slice(&chunk);
    }
    store_body_hash(request, &body);
    if reservation.0.is_some() {
        request.extensions_mut().insert(reservation);
    }
    Ok(body)
}

/// A request body of at most `LIMIT` bytes of any media type, which the handler reads part by part.
///
/// The body holds no reservation, because the handler keeps one part at a time.
///
/// # Errors
/// `413` if the `Content-Length` is above the limit.
pub struct BodyStream<const LIMIT: usize> {
    payload: Payload,
    /// Bytes that have arrived and are in no part yet.
    rest: BytesMut,
    length: usize,
    /// The time that the sender may still need.
    allowance: Duration,
}

impl<const LIMIT: usize> FromRequest for BodyStream<LIMIT> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        if content_length(request).is_some_and(|length| length > LIMIT) {
            return ready(Err(Problem::payload_too_large(LIMIT)));
        }
        let (payload, rest) = (payload.take(), BytesMut::new());
        ready(Ok(Self { payload, rest, length: 0, allowance: BODY_TIMEOUT }))
    }
}

impl<const LIMIT: usize> BodyStream<LIMIT> {
    /// Returns the next part, of `size` bytes or of the rest. It is empty at the end of the body.
    ///
    /// Only the time in which this method waits for the sender counts.
    ///
    /// # Errors
    /// `408` when the body arrives too slowly, `413` above the limit, `400` for a broken body.
    pub async fn next_part(&mut self, size: usize) -> Result<Bytes, Problem> {
        while self.rest.len() < size {
            let started = Instant::now();
            let chunk = timeout_at(started + self.allowance, self.payload.next()).await;
            let Some(chunk) = chunk.map_err(|_| Problem::request_timeout())? else { break };
            let chunk = chunk.map_err(|_| Problem::validation_failed(vec![malformed()]))?;
            self.length += chunk.len();
            if self.length > LIMIT {
                return Err(Problem::payload_too_large(LIMIT));
            }
            self.allowance = self.allowance.saturating_sub(started.elapsed());
            self.allowance += Duration::from_secs(chunk.len() as u64) / MIN_BODY_BYTES_PER_SECOND;
            self.rest.extend_from_slice(&chunk);
        }
        let length = self.rest.len().min(size);
        Ok(self.rest.split_to(length).freeze())
    }
}

fn content_length(request: &HttpRequest) -> Option<usize> {
    request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok())
}
