//! Queries, and the views that reads return.

pub mod author;
pub mod feed;
pub mod log;
pub mod post;
mod schema;
pub mod snapshot;
