//! Queries, and the views that reads return.

pub mod author;
pub mod editable;
pub mod feed;
pub mod log;
pub mod post;
pub mod revision;
pub mod schedule;
mod schema;
pub mod snapshot;
