//! Collections of property objects that a public code opens and that posts embed as snapshots.

mod app;
mod consumers;
mod db;
mod domain;
mod error;
mod events;
mod http;
mod ops;
mod schema;
mod service;
mod settings;

pub use self::service::Service;
