//! The database of one service: a pool of connections to the service's schema, transactions that
//! only edges can open, and migrations.

mod commit_signal;
mod config;
mod conn;
mod db;
mod error;
mod json;
mod locale;
mod migrate;
mod pipelined;
mod prepared;
mod replica;
mod tls;
mod tx;

pub use commit_signal::{CommitListener, CommitSignal};
pub use config::Config;
pub use conn::{Conn, PooledConn, close};
pub use db::Db;
pub use error::Error;
pub use json::Json;
pub use migrate::{migrate, migrate_within};
pub use pipelined::PipelinedConn;
pub use prepared::{Limited, Prepared};
pub use replica::{ReadReplica, ReplicaReads};
pub use tx::Tx;
