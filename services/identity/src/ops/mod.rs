//! Use cases: read, decide, write, tell, in one transaction that an edge has opened.

pub mod actor;
pub mod bootstrap;
pub mod employee;
pub mod role;
pub mod tenant;
