//! Use cases: read, decide, write and publish in one transaction, which the edge opens.

pub mod actor;
pub mod bootstrap;
pub mod employee;
mod escalation;
pub mod role;
pub mod tenant;
