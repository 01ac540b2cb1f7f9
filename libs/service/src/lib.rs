//! The framework of all services. A service declares its own parts as a [`Service`]. Configuration,
//! migrations, the process and its commands are common to all services.

mod access;
mod command;
mod composition;
mod config;
mod error;
mod http_stream;
mod idempotency;
pub mod list;
mod process;
mod reads;
mod search;
mod service;

pub use access::access_revocations;
pub use command::{OperatorCommand, RegisteredCommand};
pub use composition::{
    Contracts, Endpoints, contracts, migrate, run_command, run_messaging_command, start, topics,
};
pub use config::{Config, configure};
pub use error::Error;
pub use idempotency::{Idempotency, Reply, erase_responses};
pub use process::main;
pub use reads::Reads;
pub use service::{Role, Service};
