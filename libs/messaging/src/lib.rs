//! Events between services: written with the state change they tell of, delivered at least once and
//! in order per key, applied once.
//!
//! A use case appends to the [`outbox`]; a [`Bus`] carries it to Kafka, and hands each message that
//! arrives to its [`Handler`] inside a transaction that also remembers it in the inbox. This crate is
//! the only user of rdkafka and the only owner of its tables.

mod asyncapi;
mod backlog;
mod bus;
mod config;
mod consumer;
mod dead_letters;
mod destinations;
mod envelope;
mod handler;
mod inbox;
mod lease;
pub mod outbox;
mod parked;
mod partitions;
mod relay;
mod schema;
mod tenure;
pub mod topics;

use diesel_migrations::{EmbeddedMigrations, embed_migrations};

pub use asyncapi::AsyncApi;
pub use bus::Bus;
pub use config::Config;
pub use dead_letters::DeadLetters;
pub use envelope::{Event, Message};
pub use handler::{Failure, Handler};
pub use parked::Parked;

/// What needs a person: commands of every service's binary.
#[derive(Debug, clap::Subcommand)]
pub enum Operation {
    /// Messages that a consumer could not take
    #[command(subcommand)]
    DeadLetters(DeadLetters),
    /// Events that could not be sent
    #[command(subcommand)]
    Parked(Parked),
}

/// The tables of this crate, for every service's schema.
pub const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/messaging");
