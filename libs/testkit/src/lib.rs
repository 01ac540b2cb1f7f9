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
pub mod faults;
pub mod forged;
pub mod history;
pub mod issuer;
pub mod kafka;
mod own;
pub mod page;
pub mod postgres;
pub mod service;

/// A variable of the environment that `cargo dev test` sets.
///
/// # Errors
/// When it is not set.
pub fn required(name: &str) -> anyhow::Result<String> {
    std::env::var(name).map_err(|_| anyhow::anyhow!("{name} is not set; run the tests with `cargo dev test`"))
}
