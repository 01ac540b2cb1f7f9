//! What is stored, and how it is found.

pub mod account;
pub mod accrual;
pub mod schema;
