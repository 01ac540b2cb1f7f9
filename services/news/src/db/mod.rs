//! Queries, and the views that reads return.

pub mod author;
pub mod editable;
pub mod feed;
pub mod log;
pub mod post;
pub mod revision;
pub mod schedule;
pub mod snapshot;
