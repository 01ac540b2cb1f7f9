//! Headers of every response: caching and CORS.

use actix_cors::Cors;
use actix_web::http::Method;
use actix_web::http::header;
use actix_web::middleware::DefaultHeaders;

use crate::config::Origin;
use crate::request::keyed::IDEMPOTENCY_KEY;

/// The time for which a browser caches a preflight.
const PREFLIGHT_MAX_AGE_SECONDS: usize = 3600;

/// Forbids caching unless the handler allows it, and forbids browsers to guess the media type.
pub(crate) fn default_headers() -> DefaultHeaders {
    DefaultHeaders::new()
        .add((header::CACHE_CONTROL, "no-store"))
        .add((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
}

/// Allows pages of `origins` to call the API and read its responses.
///
/// Pages set `Authorization` themselves, so browsers need not send credentials such as cookies.
pub(crate) fn cors(origins: &[Origin]) -> Cors {
    let cors = Cors::default()
        .allowed_methods([
            Method::GET,
            Method::HEAD,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
        ])
        .allowed_headers([
            header::ACCEPT,
            header::ACCEPT_LANGUAGE,
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            header::IF_NONE_MATCH,
        ])
        .allowed_headers([IDEMPOTENCY_KEY, "last-event-id", "traceparent", "tracestate"])
        .expose_headers([
            header::ALLOW,
            header::CONTENT_DISPOSITION,
            header::CONTENT_LANGUAGE,
            header::ETAG,
            header::LOCATION,
            header::RETRY_AFTER,
        ])
        .expose_headers(["deprecation", "sunset"])
        .max_age(PREFLIGHT_MAX_AGE_SECONDS);
    origins.iter().fold(cors, |cors, Origin(origin)| cors.allowed_origin(origin))
}
