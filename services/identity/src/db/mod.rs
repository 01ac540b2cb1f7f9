//! Queries.

pub mod audit;
pub mod employee;
pub mod employment;
pub mod role;
pub mod schema;
pub mod tenant;
