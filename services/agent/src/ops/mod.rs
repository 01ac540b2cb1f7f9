//! The use cases. Each is given the transaction in which it happens.

pub mod accrual;
pub mod adjustment;
mod books;
pub mod payout;
pub mod payout_run;

pub use books::Books;
