//! The commands for operators in every service's binary.

mod dead_letters;
mod growth;
mod lock;
mod offsets;
mod parked;
mod republish;
mod restored;
mod topics;

use std::num::NonZeroU32;

use time::OffsetDateTime;

use self::dead_letters::DeadLetterCommand;
use self::offsets::{ConsumerCommand, parse_time};
use self::parked::ParkedCommand;
use self::topics::TopicCommand;
use crate::bus::Bus;
use crate::contract::asyncapi::PublishedEvent;

pub use self::republish::{Republish, Republisher};
pub use self::restored::{PublishedState, Restore, Restorer, VersionNames};

/// A command for operators.
#[derive(Debug, clap::Subcommand)]
pub enum MessagingCommand {
    /// List, replay or discard messages that a consumer could not apply
    #[command(subcommand)]
    DeadLetters(DeadLetterCommand),
    /// Move the offsets of consumers
    #[command(subcommand)]
    Consumers(ConsumerCommand),
    /// List, release or discard events that the broker rejects
    #[command(subcommand)]
    Parked(ParkedCommand),
    /// Increase the partitions of a topic without losing the order of a key
    #[command(subcommand)]
    Topics(TopicCommand),
    /// Publish the current state of all aggregates of one kind again
    Republish {
        /// The kind, as events name it in `aggregatetype`
        kind: String,
        /// The maximum number of aggregates per second. Live events of the same partitions wait
        /// behind the republished ones, so choose a rate that consumers can apply
        #[arg(long, default_value = "500")]
        per_second: NonZeroU32,
    },
    /// Number new events above all events that were ever sent, and make the consumers compare their
    /// positions with their receipts. Run this before any write if the restore kept the timeline of
    /// the database. After a restore with a new timeline the service does both by itself
    Restored {
        /// The time to which the database was restored, as in 2026-05-01T12:00:00Z. The command
        /// reads the service's own topics since then. It publishes the current state with a version
        /// above the lost one, and the end of each entity that no longer exists. A time that is too
        /// early is safe
        #[arg(long, value_parser = parse_time)]
        since: Option<OffsetDateTime>,
        /// Print the outcome of each key, and write nothing
        #[arg(long, requires = "since")]
        dry_run: bool,
    },
}

impl MessagingCommand {
    /// Executes the command and prints its result.
    pub async fn execute(
        self,
        bus: &Bus,
        published: &[PublishedEvent],
        republishers: &[Republisher],
        restorers: &[Restorer],
    ) -> anyhow::Result<()> {
        match self {
            Self::DeadLetters(command) => command.execute(bus).await,
            Self::Consumers(command) => command.execute(bus).await,
            Self::Parked(command) => command.execute(bus).await,
            Self::Topics(command) => command.execute(bus, published).await,
            Self::Republish { kind, per_second } => {
                republish::execute(bus, republishers, &kind, per_second).await
            }
            Self::Restored { since, dry_run } => restored::execute(bus, restorers, since, dry_run).await,
        }
    }
}
