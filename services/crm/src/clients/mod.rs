//! Clients of other services.

mod selections;

pub use selections::{CALLS, Selections, SelectionsResponse};
