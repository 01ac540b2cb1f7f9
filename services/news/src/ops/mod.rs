//! Use cases: read, decide, write, tell.

pub mod block;
pub mod post;
pub mod snapshot;
