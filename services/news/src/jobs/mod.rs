//! Background jobs.

pub mod snapshot_detach_retry;
