//! Use cases: read, decide, write and publish.

pub mod block;
pub mod new_block;
pub mod post;
pub mod revision;
pub mod schedule;
pub mod snapshot;
