//! Selections: collections of property objects, opened by a public code and frozen into snapshots.

mod app;
mod consumers;
mod db;
mod domain;
mod error;
mod events;
mod http;
mod ops;
mod settings;

pub use app::Service;
