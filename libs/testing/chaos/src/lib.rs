//! Fault injection under load, and the checks of the data after it.

pub mod alert_drill;
pub mod chaos;
pub mod verify;
