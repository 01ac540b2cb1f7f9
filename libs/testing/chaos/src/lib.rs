//! Faults provoked under load, and the checks of the data after them.

pub mod chaos;
pub mod verify;
pub mod watch;
