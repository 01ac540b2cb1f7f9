//! What tests stand on: a running service with a database of its own, the bus, tokens, callers.

#![allow(clippy::expect_used, reason = "a test that cannot be set up should say so at once")]
#![allow(clippy::disallowed_methods, reason = "tests stand outside the services that the rule is for")]

pub mod access;
pub mod breaking;
pub mod broker;
pub mod bus;
pub mod client;
pub mod collector;
pub mod contract;
pub mod database;
pub mod deployed;
pub mod documents;
pub mod faults;
pub mod forged;
pub mod held;
pub mod history;
pub mod issuer;
pub mod kafka;
pub mod keycloak;
pub mod livekit;
mod own;
pub mod page;
pub mod ports;
mod possible;
pub mod postgres;
pub mod service;
pub mod signals;
pub mod statements;
mod sunset;

use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

/// An id of anything.
pub fn guid() -> Uuid {
    Uuid::from_u128(rand::random())
}

/// A member that is a text.
///
/// # Panics
/// When it is none.
pub fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// The longest wait of a test. It is generous, since a busy machine is late; `TEST_TIMEOUT_SECONDS` shortens it for mutants, most
/// of which are caught by waiting in vain.
pub(crate) static TIMEOUT: LazyLock<Duration> = LazyLock::new(|| {
    let seconds = required("TEST_TIMEOUT_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(90))
});

/// Asks again until there is an answer.
///
/// # Panics
/// When there is none in time.
pub async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let answered = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(*TIMEOUT, answered).await;
    in_time.unwrap_or_else(|_| panic!("waited in vain: {what}"))
}

/// A variable of the environment that `cargo dev test` sets.
///
/// # Errors
/// When it is not set.
pub fn required(name: &str) -> anyhow::Result<String> {
    std::env::var(name).map_err(|_| anyhow::anyhow!("{name} is not set; run the tests with `cargo dev test`"))
}
