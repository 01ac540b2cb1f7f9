//! Fault tests of messaging with real processes of the service `ledger`.
//!
//! Each test has its own database and its own broker. The broker is embedded. In the lane with a
//! real Kafka it is a cluster that no other test uses at that time. A test ends with the verdict on
//! the whole history.

#![expect(clippy::unwrap_used, reason = "a helper that fails ends its test")]

mod backlog;
mod batches;
mod broker;
mod consuming;
mod controls;
mod database;
mod dead_letters;
mod embedded;
mod failover;
mod frozen;
mod growth;
mod kafka;
mod kills;
mod lanes;
mod parked;
mod replica;
mod replicas;
mod republish;
mod restored;
mod rewind;
mod rig;
mod states;
