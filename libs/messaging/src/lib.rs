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
mod consumers;
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
mod republish;
mod schema;
mod tenure;
mod thing;
pub mod topics;

use diesel_migrations::{EmbeddedMigrations, embed_migrations};

pub use asyncapi::{AsyncApi, Published};
pub use bus::{Bus, Subscription};
pub use config::Config;
pub use consumers::Consumers;
pub use dead_letters::DeadLetters;
pub use envelope::{Aggregate, Event, Message};
pub use handler::{Failure, Handler};
pub use parked::Parked;
pub use republish::{Republish, Republished};
pub use thing::Thing;

/// What needs a person: commands of every service's binary.
#[derive(Debug, clap::Subcommand)]
pub enum Operation {
    /// Messages that a consumer could not take
    #[command(subcommand)]
    DeadLetters(DeadLetters),
    /// Where consumers are in their topics
    #[command(subcommand)]
    Consumers(Consumers),
    /// Events that could not be sent
    #[command(subcommand)]
    Parked(Parked),
    /// Tell anew of everything of a kind, as it is now
    Republish {
        /// As events name it in `aggregatetype`
        kind: String,
    },
    /// Once after the database was restored, before anything is written: number events beyond all that were sent
    Restored,
}

/// The tables of this crate, for every service's schema.
pub const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/messaging");
