//! Test support: a running service with its own database, the bus, tokens and HTTP clients.

#![allow(clippy::expect_used, reason = "a test whose setup fails should fail at once")]
#![allow(clippy::disallowed_methods, reason = "the rule is for services, not for tests")]

pub mod access;
pub mod api_page;
pub mod breaking;
pub mod broker;
pub mod bus;
mod child;
mod claims;
pub mod client;
pub mod collector;
pub mod contract;
pub mod database;
pub mod dedicated;
pub mod deployed;
mod described;
pub mod documents;
pub mod expensive;
pub mod faults;
pub mod forged;
pub mod guests;
pub mod held;
pub mod history;
pub mod issuer;
pub mod kafka;
pub mod keycloak;
pub mod languages;
pub mod livekit;
pub mod ports;
pub mod postgres;
mod published;
mod response;
mod samples;
pub mod service;
pub mod signals;
pub mod statements;
mod sunset;
pub mod tls;

use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

/// Returns a random id.
pub fn guid() -> Uuid {
    Uuid::from_u128(rand::random())
}

/// Returns a JSON value as text.
///
/// # Panics
/// If the value is not a text.
pub fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// Timeout of every wait in a test. It is long, since a busy machine is slow.
///
/// `TEST_TIMEOUT_SECONDS` shortens it for mutation tests, where the timeout catches many mutants.
pub(crate) static TIMEOUT: LazyLock<Duration> = LazyLock::new(|| {
    let seconds = required("TEST_TIMEOUT_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(90))
});

/// Polls until there is a result, and returns it.
///
/// # Panics
/// If there is no result within the timeout.
pub async fn eventually<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    let polled = async {
        loop {
            if let Some(result) = poll().await {
                return result;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(*TIMEOUT, polled).await;
    in_time.unwrap_or_else(|_| panic!("timed out waiting for {what}"))
}

/// Returns an environment variable that `cargo dev test` sets.
///
/// # Errors
/// If the variable is not set.
pub fn required(name: &str) -> anyhow::Result<String> {
    std::env::var(name).map_err(|_| anyhow::anyhow!("{name} is not set; run the tests with `cargo dev test`"))
}
