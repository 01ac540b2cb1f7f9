//! Answers that everybody gets alike: kept by whoever wants to, asked about before they are used again, and compressed.

use std::io::{self, Write};

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{
    self, AcceptEncoding, ContentEncoding, Encoding, EntityTag, Header, HeaderValue, IfNoneMatch,
};
use actix_web::middleware::Next;
use actix_web::web::{Bytes, block};
use actix_web::{Error, HttpMessage, HttpRequest, ResponseError};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use twox_hash::XxHash3_128;

use crate::limits::byte_budget::response::hold;

/// What fits into one packet is not worth the effort.
const WORTH: usize = 1024;
/// Compressing more takes long enough to keep others waiting on a thread that serves them.
const QUICK: usize = 16 * 1024;
/// What is longer is neither tagged nor compressed: it has room for itself, not for a second one of it.
const LONG: usize = 4 * 1024 * 1024;

/// Around a route whose answers to guests are everybody's, as in `#[get("…", wrap = "from_fn(web::cacheable)")]`: such an
/// answer has an `ETag`, is `304` for whoever has it already (`If-None-Match`), and is compressed where the caller takes
/// that. Whoever sends a token gets neither: their answer may be theirs alone, and how well a secret compresses beside what
/// somebody else has put into the answer tells of it (BREACH).
///
/// # Errors
/// Those of the handler.
pub async fn cacheable<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let is_guest = !request.headers().contains_key(header::AUTHORIZATION);
    let mut response = next.call(request).await?.map_into_boxed_body();
    // One line: what is done for other origins adds to the first and drops further ones.
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Authorization, Accept-Encoding"));
    if !is_guest || response.status() != StatusCode::OK {
        return Ok(response);
    }
    let (request, response) = response.into_parts();
    let (mut response, body) = response.into_parts();
    let mut bytes = match body.try_into_bytes() {
        Ok(bytes) if bytes.len() <= LONG => bytes,
        Ok(bytes) => return Ok(ServiceResponse::new(request, response.set_body(BoxBody::new(bytes)))),
        Err(body) => return Ok(ServiceResponse::new(request, response.set_body(body))),
    };
    // Nobody but the author of both could make two answers of one tag, and would mislead their own readers alone.
    let tag = EntityTag::new_weak(URL_SAFE_NO_PAD.encode(XxHash3_128::oneshot(&bytes).to_be_bytes()));
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=0, must-revalidate"));
    if let Ok(value) = HeaderValue::from_str(&tag.to_string()) {
        headers.insert(header::ETAG, value);
    }
    if has_already(&request, &tag) {
        headers.remove(header::CONTENT_TYPE);
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(ServiceResponse::new(request, response.set_body(BoxBody::new(()))));
    }
    if let Err(problem) = hold(&request, bytes.len()) {
        return Ok(ServiceResponse::new(request, problem.error_response()));
    }
    if bytes.len() >= WORTH
        && let Some(encoding) = wanted(&request)
        && let Ok(compressed) = compress(encoding, bytes.clone()).await
    {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding.as_str()));
        bytes = compressed;
    }
    Ok(ServiceResponse::new(request, response.set_body(BoxBody::new(bytes))))
}

fn has_already(request: &HttpRequest, tag: &EntityTag) -> bool {
    match IfNoneMatch::parse(request) {
        Ok(IfNoneMatch::Any) => true,
        Ok(IfNoneMatch::Items(tags)) => tags.iter().any(|had| had.weak_eq(tag)),
        Err(_) => false,
    }
}

/// How the caller wants the answer compressed, the better way first.
fn wanted(request: &HttpRequest) -> Option<ContentEncoding> {
    let accepted = request.get_header::<AcceptEncoding>()?;
    [(Encoding::zstd(), ContentEncoding::Zstd), (Encoding::gzip(), ContentEncoding::Gzip)]
        .into_iter()
        .find(|(encoding, _)| accepted.negotiate([encoding.clone()].iter()).as_ref() == Some(encoding))
        .map(|(_, encoding)| encoding)
}

async fn compress(encoding: ContentEncoding, bytes: Bytes) -> io::Result<Bytes> {
    let is_quick = bytes.len() <= QUICK;
    let work = move || {
        if encoding == ContentEncoding::Zstd {
            return zstd::encode_all(&*bytes, zstd::DEFAULT_COMPRESSION_LEVEL).map(Bytes::from);
        }
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&bytes)?;
        encoder.finish().map(Bytes::from)
    };
    if is_quick { work() } else { block(work).await.map_err(io::Error::other)? }
}
