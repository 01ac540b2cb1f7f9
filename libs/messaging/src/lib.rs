//! Events between services: written with the state change they tell of, delivered at least once and
//! in order per key, applied once.
//!
//! A use case appends to the [`outbox`]; a [`Bus`] carries it to Kafka, and hands each message that
//! arrives to its [`Handler`] inside a transaction that also remembers it in the inbox. This crate is
//! the only user of rdkafka and the only owner of its tables.

mod backlog;
mod bus;
mod config;
mod consumer;
mod contract;
mod handler;
mod operations;
pub mod outbox;
mod relay;
mod schema;
mod subscription;

use diesel_migrations::{EmbeddedMigrations, embed_migrations};

pub use bus::Bus;
pub use config::Config;
pub use consumer::entity::Thing;
pub use contract::asyncapi::{AsyncApi, Published};
pub use contract::message::{Aggregate, Event, Message};
pub use contract::topics;
pub use handler::{Failure, Handler};
pub use operations::Operation;
pub use operations::republish::{Republish, Republished};
pub use subscription::Subscription;

/// The tables of this crate, for every service's schema.
pub const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/messaging");
