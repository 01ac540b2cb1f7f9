//! The one HTTP client of the local stack.

use std::time::Duration;

/// A connection is kept so long while nobody uses it: less than any server here keeps it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A client that follows no redirects and gives up on what does not listen; an answer may take its
/// time, since bodies are streamed through.
pub fn client() -> anyhow::Result<reqwest::Client> {
    Ok(builder().build()?)
}

/// One that makes a new connection for each request.
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
