//! Helpers for HTTP calls without a [`ServiceClient`](crate::ServiceClient).

use std::time::Duration;

use http::HeaderMap;
use opentelemetry_http::HeaderInjector;

/// The time after which an idle connection is closed. Listeners close idle connections after 75 s.
/// A request on a connection that the listener is closing would fail.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// Creates a client without retries or tokens, for example for an issuer's keys. It follows no
/// redirects and fails after `timeout`.
///
/// # Errors
/// If TLS cannot be set up.
#[expect(clippy::disallowed_methods, reason = "the only place that creates clients")]
pub fn new_client(timeout: Duration) -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
        .timeout(timeout)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .build()
}

/// Returns the headers that make a call part of the current trace.
pub fn trace_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    let context = opentelemetry::Context::current();
    opentelemetry::global::get_text_map_propagator(|propagator| {
        propagator.inject_context(&context, &mut HeaderInjector(&mut headers));
    });
    headers
}
