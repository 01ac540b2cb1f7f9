//! The HTTP client of the local stack.

use std::time::Duration;

/// Idle time of a connection. The servers of the stack keep idle connections longer.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns a client without redirects. The connect timeout is short, since a service that does not
/// listen is down. A response may take long, since bodies are streamed.
pub fn client() -> anyhow::Result<reqwest::Client> {
    Ok(builder().build()?)
}

/// Returns a client that opens a new connection for each request.
pub fn without_keep_alive() -> anyhow::Result<reqwest::Client> {
    Ok(builder().pool_max_idle_per_host(0).build()?)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a tool's client: no service, so neither retries nor machine tokens"
)]
fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .pool_idle_timeout(IDLE_TIMEOUT)
        .connect_timeout(Duration::from_secs(2))
        .read_timeout(Duration::from_mins(1))
}
