//! Queries, and the shapes that reads answer with.

pub mod feed;
pub mod post;
mod schema;
pub mod snapshot;
