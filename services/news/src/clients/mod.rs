//! Clients of other services.

mod selections;

pub use selections::{CALLS, Selections, SnapshotCard, SnapshotContent, TakeSnapshot};
