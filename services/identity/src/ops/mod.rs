//! Use cases: read, decide, write and publish in one transaction, which the edge opens.

mod access;
pub mod actor;
pub mod bootstrap;
pub mod client_update;
pub mod employee;
mod escalation;
pub mod machine_account;
pub mod role;
pub mod tenant;
