//! The open streams of this replica.

mod frame;
mod hub;
mod poll;

pub use frame::{Frame, load_batches};
pub use hub::Hub;
pub use poll::run;
