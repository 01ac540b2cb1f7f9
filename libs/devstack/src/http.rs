//! The one HTTP client of the local stack.

use std::time::Duration;

/// A client that follows no redirects and gives up on what does not listen; an answer may take its
/// time, since bodies are streamed through.
#[expect(
    clippy::disallowed_methods,
    reason = "a tool's client: no service, so neither retries nor machine tokens"
)]
pub(crate) fn client() -> anyhow::Result<reqwest::Client> {
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(Duration::from_secs(2))
        .read_timeout(Duration::from_mins(1));
    Ok(client.build()?)
}
