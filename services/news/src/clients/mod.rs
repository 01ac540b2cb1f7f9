//! Other services, as this one sees them.

mod selections;

pub use selections::{CALLS, Selections, SnapshotContent, Taken};
