//! Responses that are the same for all guests. Callers cache and revalidate them.

use std::io::{self, Write};

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{
    self, AcceptEncoding, ContentEncoding, Encoding, EntityTag, Header, HeaderValue, IfNoneMatch,
};
use actix_web::middleware::Next;
use actix_web::web::{Bytes, block};
use actix_web::{Error, HttpMessage, HttpRequest, HttpResponse, ResponseError};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use twox_hash::XxHash3_128;

use crate::limits::byte_budget::response::ensure_reservation;

/// The smallest body that is compressed. A smaller body fits into one packet.
const MIN_COMPRESSED_BYTES: usize = 1024;
/// The largest body that is compressed on the listener's thread, where it delays other requests.
const MAX_INLINE_COMPRESSION_BYTES: usize = 16 * 1024;
/// The largest body that is tagged and compressed. Compression takes memory beside the reservation.
const MAX_TAGGED_BYTES: usize = 4 * 1024 * 1024;

/// Wraps a route whose response is the same for all guests, as in
/// `#[get("…", wrap = "from_fn(web::cacheable)")]`.
///
/// Such a response has an `ETag` and is compressed if the caller accepts it.
/// A matching `If-None-Match` gets `304`.
/// A response to a caller with a token is neither tagged nor compressed, because it may be private.
/// Compression could also reveal a secret next to an attacker's text (BREACH).
pub async fn cacheable<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let is_guest = !request.headers().contains_key(header::AUTHORIZATION);
    let mut response = next.call(request).await?.map_into_boxed_body();
    // One header has both names, because the CORS middleware keeps only the first `Vary` header.
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Authorization, Accept-Encoding"));
    if !is_guest || response.status() != StatusCode::OK {
        return Ok(response);
    }
    let (request, response) = response.into_parts();
    let (response, body) = response.into_parts();
    let response = match body.try_into_bytes() {
        Ok(bytes) if bytes.len() <= MAX_TAGGED_BYTES => tag_and_compress(&request, response, bytes).await,
        Ok(bytes) => response.set_body(BoxBody::new(bytes)),
        Err(body) => response.set_body(body),
    };
    Ok(ServiceResponse::new(request, response))
}

/// Adds the tag, and then either empties the body that the caller has, or compresses it.
async fn tag_and_compress(
    request: &HttpRequest,
    mut response: HttpResponse<()>,
    mut bytes: Bytes,
) -> HttpResponse {
    // The hash need not resist attacks. Only an author could construct two responses with the same
    // tag, and only readers of that author's content would get the wrong one.
    let tag = tag_of(&bytes);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=0, must-revalidate"));
    if let Ok(value) = HeaderValue::from_str(&tag.to_string()) {
        headers.insert(header::ETAG, value);
    }
    if is_cached_by_caller(request, &tag) {
        headers.remove(header::CONTENT_TYPE);
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response.set_body(BoxBody::new(()));
    }
    if let Err(problem) = ensure_reservation(request, bytes.len()) {
        return problem.error_response();
    }
    if bytes.len() >= MIN_COMPRESSED_BYTES
        && let Some(encoding) = accepted_encoding(request)
        && let Ok(compressed) = compress(encoding, bytes.clone()).await
    {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding.as_str()));
        bytes = compressed;
    }
    response.set_body(BoxBody::new(bytes))
}

/// Returns the tag of a body.
pub(super) fn tag_of(body: &[u8]) -> EntityTag {
    EntityTag::new_weak(URL_SAFE_NO_PAD.encode(XxHash3_128::oneshot(body).to_be_bytes()))
}

/// Returns true if the caller has the body with this tag.
pub fn is_cached_by_caller(request: &HttpRequest, tag: &EntityTag) -> bool {
    match IfNoneMatch::parse(request) {
        Ok(IfNoneMatch::Any) => true,
        Ok(IfNoneMatch::Items(tags)) => tags.iter().any(|cached| cached.weak_eq(tag)),
        Err(_) => false,
    }
}

/// Returns the best encoding that the caller accepts.
fn accepted_encoding(request: &HttpRequest) -> Option<ContentEncoding> {
    [ContentEncoding::Zstd, ContentEncoding::Gzip].into_iter().find(|encoding| accepts(request, *encoding))
}

/// Returns true if the caller accepts the encoding.
pub fn accepts(request: &HttpRequest, encoding: ContentEncoding) -> bool {
    let encoding = if encoding == ContentEncoding::Zstd { Encoding::zstd() } else { Encoding::gzip() };
    let accepted = request.get_header::<AcceptEncoding>();
    accepted.is_some_and(|accepted| accepted.negotiate([encoding.clone()].iter()) == Some(encoding))
}

async fn compress(encoding: ContentEncoding, bytes: Bytes) -> io::Result<Bytes> {
    let is_small = bytes.len() <= MAX_INLINE_COMPRESSION_BYTES;
    let work = move || {
        if encoding == ContentEncoding::Zstd {
            return zstd::encode_all(&*bytes, zstd::DEFAULT_COMPRESSION_LEVEL).map(Bytes::from);
        }
        gzip(&bytes, flate2::Compression::fast())
    };
    if is_small { work() } else { block(work).await.map_err(io::Error::other)? }
}

pub(super) fn gzip(bytes: &[u8], level: flate2::Compression) -> io::Result<Bytes> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes)?;
    encoder.finish().map(Bytes::from)
}
