//! Headers that every answer of a listener has, whoever has answered: those of caching and those of browsers.

use actix_cors::Cors;
use actix_web::http::Method;
use actix_web::http::header;
use actix_web::middleware::DefaultHeaders;

use crate::config::Origin;

/// What a browser remembers of what it may ask for.
const MAX_AGE_SECONDS: usize = 3600;

/// Nobody keeps an answer, unless its handler says otherwise, and nobody guesses what it is.
pub(crate) fn defaults() -> DefaultHeaders {
    DefaultHeaders::new()
        .add((header::CACHE_CONTROL, "no-store"))
        .add((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
}

/// Lets the pages of these origins call and read what is answered. They send tokens by themselves, so no browser has to
/// send what it keeps of its own accord (cookies).
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
        .allowed_headers(["last-event-id", "traceparent", "tracestate"])
        .expose_headers([
            header::ALLOW,
            header::CONTENT_LANGUAGE,
            header::ETAG,
            header::LOCATION,
            header::RETRY_AFTER,
        ])
        .expose_headers(["deprecation", "sunset"])
        .max_age(MAX_AGE_SECONDS);
    origins.iter().fold(cors, |cors, Origin(origin)| cors.allowed_origin(origin))
}
