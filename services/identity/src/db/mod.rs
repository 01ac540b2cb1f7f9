//! Queries.

pub mod audit;
pub mod employee;
pub mod role;
pub mod schema;
pub mod standing;
pub mod tenant;
