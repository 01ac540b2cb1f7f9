//! The open streams of this replica.

mod event;
mod frame;
mod hub;
mod poll;
mod wake;

pub use event::{EventStream, READY, RESET, Ready, Reset};
pub use frame::{Frame, load_batches};
pub use hub::{Hub, OpenStream};
pub use poll::run;
pub use wake::exchange_wake_ups;
