//! Telling people what happens, as it happens: the streams that this replica has open.

mod frame;
mod hub;
mod poll;

pub use frame::{Frame, page};
pub use hub::Hub;
pub use poll::watch;
