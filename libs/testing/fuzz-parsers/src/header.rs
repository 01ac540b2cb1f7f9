//! Headers of requests.

use std::collections::HashMap;

use actix_web::HttpMessage;
use actix_web::http::header::{
    ACCEPT_ENCODING, ContentEncoding, EntityTag, HeaderName, HeaderValue, IF_NONE_MATCH,
};
use actix_web::test::TestRequest;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TraceContextExt;
use runtime::trace_context::StrictPropagator;
use web::{AuthenticatedCaller, KeyedRequest, accepts, is_cached_by_caller};

/// Reads the value of each header that a service parses.
///
/// An accepted `Idempotency-Key` is the same key in quotes. An accepted `traceparent` is continued
/// by the calls of the service.
pub fn header(data: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(data) else { return };
    if let Some(key) = idempotency_key(&value) {
        let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
        assert_eq!(HeaderValue::from_str(&quoted).ok().and_then(|value| idempotency_key(&value)), Some(key));
    }
    let request = TestRequest::default().insert_header((IF_NONE_MATCH, value.clone()));
    let request = request.insert_header((ACCEPT_ENCODING, value.clone())).to_http_request();
    is_cached_by_caller(&request, &EntityTag::new_weak("tag".to_owned()));
    accepts(&request, ContentEncoding::Gzip);
    if let Ok(text) = value.to_str() {
        check_trace(text);
    }
}

fn idempotency_key(value: &HeaderValue) -> Option<String> {
    let name = HeaderName::from_static("idempotency-key");
    let request = TestRequest::default().insert_header((name, value.clone())).to_http_request();
    request.extensions_mut().insert(AuthenticatedCaller("anna".to_owned()));
    let key = KeyedRequest::of(&request).ok()??.key;
    assert!((1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()));
    Some(key)
}

/// Reads the text as a `traceparent`, and as the `tracestate` of a valid one.
fn check_trace(text: &str) {
    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    let propagator = StrictPropagator::default();
    for (traceparent, tracestate) in [(text, text), (VALID, text)] {
        let headers = [("traceparent", traceparent), ("tracestate", tracestate)];
        let headers: HashMap<_, _> = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let received = propagator.extract(&headers);
        let span = received.span().span_context().clone();
        if !span.is_valid() {
            assert_ne!(traceparent, VALID);
            continue;
        }
        let mut sent: HashMap<String, String> = HashMap::new();
        propagator.inject_context(&received, &mut sent);
        let continued = propagator.extract(&sent);
        assert_eq!(continued.span().span_context().trace_id(), span.trace_id());
    }
}
