//! Commands for operators.

mod dead_letters;
mod offsets;
mod parked;
pub mod republish;

use dead_letters::DeadLetters;
use offsets::Consumers;
use parked::Parked;

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
