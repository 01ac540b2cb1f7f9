//! Queries.

mod schema;
