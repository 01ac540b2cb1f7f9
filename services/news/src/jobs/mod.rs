//! Background jobs.

pub mod post_revisions;
pub mod post_schedule;
pub mod snapshot_detach_retry;
