//! Work after commit.

pub mod snapshot_detach_retry;
