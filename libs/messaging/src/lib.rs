//! Events between services: written with the state change they tell of, delivered at least once and
//! in order per key, applied once.
//!
//! A use case appends to the [`outbox`]; the [`Relay`] carries it to Kafka; a [`Consumer`] hands each
//! message to its [`Handler`] inside a transaction that also remembers it in the inbox. This crate is
//! the only user of rdkafka and the only owner of its tables.

mod asyncapi;
mod config;
mod consumer;
mod envelope;
mod inbox;
mod lease;
pub mod outbox;
mod relay;
mod schema;

use diesel_migrations::{EmbeddedMigrations, embed_migrations};

pub use asyncapi::AsyncApi;
pub use config::Config;
pub use consumer::{Consumer, Failure, Handler};
pub use envelope::{Event, Message};
pub use relay::Relay;

/// The tables of this crate, for every service's schema.
pub const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/messaging");
