//! Queries, and the views that reads return.

pub mod author;
pub mod feed;
pub mod post;
mod schema;
pub mod snapshot;
