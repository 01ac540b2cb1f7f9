//! Faults provoked under load, and the checks of the data after them.

pub mod alert_drill;
pub mod chaos;
pub mod verify;
