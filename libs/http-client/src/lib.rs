//! Calling another service over HTTP.

use std::time::Duration;

/// A client for small documents, such as an issuer's keys: no redirects, and cut off after `timeout`.
///
/// # Errors
/// When TLS cannot be set up on this machine.
#[expect(clippy::disallowed_methods, reason = "the one place where clients are made")]
pub fn client(timeout: Duration) -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder().timeout(timeout).redirect(reqwest::redirect::Policy::none()).build()
}
