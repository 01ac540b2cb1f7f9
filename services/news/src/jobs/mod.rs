//! Work after commit.

mod snapshot_detach_retry;

pub use snapshot_detach_retry::SnapshotDetachRetry;
