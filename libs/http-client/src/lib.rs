//! Calling another service: 5 s a try, two retries with jitter, `traceparent`, a machine token, a bound to
//! the calls that are under way, and a breaker that answers at once while the other side is plainly down.

mod breaker;
mod call;
mod middleware;
mod service;
mod token;

use std::time::Duration;

use http::HeaderMap;
use opentelemetry_http::HeaderInjector;

pub use call::Call;
pub use service::{CallError, Config, Service};

/// A client for small documents, such as an issuer's keys: no redirects, and cut off after `timeout`.
///
/// # Errors
/// When TLS cannot be set up on this machine.
#[expect(clippy::disallowed_methods, reason = "the one place where clients are made")]
pub fn client(timeout: Duration) -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder().timeout(timeout).redirect(reqwest::redirect::Policy::none()).build()
}

/// What has a call carry the trace that it is part of.
pub fn trace() -> HeaderMap {
    let mut headers = HeaderMap::new();
    let context = opentelemetry::Context::current();
    opentelemetry::global::get_text_map_propagator(|propagator| {
        propagator.inject_context(&context, &mut HeaderInjector(&mut headers));
    });
    headers
}
