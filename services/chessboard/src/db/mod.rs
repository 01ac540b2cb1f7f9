//! Queries.

pub mod company;
pub mod developer;
pub mod log;
pub mod outside_profile;
pub mod schema;
