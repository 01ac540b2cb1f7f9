//! Selections: collections of property objects, opened by a public code and frozen into snapshots.

mod app;
mod config;
mod consumers;
mod db;
mod domain;
mod error;
mod events;
mod http;
mod ops;

pub use app::Service;
pub use config::Config;
