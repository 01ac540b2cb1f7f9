//! Events between services. An event is committed atomically with the change that it describes,
//! delivered at least once and in order per key, and applied once.
//!
//! A use case appends to the [`outbox`]. A [`Bus`] publishes the outbox to Kafka, and passes each
//! received message to its [`Handler`], in the transaction that records the message in the inbox.
//! Services use rdkafka and the tables of this crate only through its functions.

mod backlog;
mod bus;
mod commands;
mod config;
mod consumer;
mod contract;
mod failure;
mod handler;
mod history;
mod lanes;
pub mod outbox;
mod relay;
mod schema;
mod subscription;

use diesel_migrations::{EmbeddedMigrations, embed_migrations};

pub use bus::Bus;
pub use commands::{
    MessagingCommand, PublishedState, Republish, Republisher, Restore, Restorer, VersionNames,
};
pub use config::Config;
pub use consumer::entity::EntityLock;
pub use contract::asyncapi::{AsyncApi, HttpStream, PublishedEvent};
pub use contract::event::{Aggregate, Event};
pub use contract::message::Message;
pub use contract::topics;
pub use failure::Failure;
pub use handler::{BatchHandler, Handler, TracedMessage};
pub use messaging_derive::Event;
pub use subscription::{HandleFn, Subscription};

/// The tables of this crate, for every service's schema.
pub const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/messaging");
