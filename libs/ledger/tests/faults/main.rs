//! What messaging promises, kept while processes, the broker and the database fail: real processes of
//! the `ledger` service, each test with a database and a broker of its own, the embedded one or a real
//! Kafka, as the run has it. Each ends with the verdict on the whole history.

#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod backlog;
mod broker;
mod consuming;
mod controls;
mod database;
mod dead_letters;
mod embedded;
mod frozen;
mod kafka;
mod kills;
mod parked;
mod replica;
mod replicas;
mod republish;
mod rewind;
mod rig;
