//! The use cases. Each is given the transaction in which it happens.

pub mod accrual;
pub mod adjustment;
mod books;
pub mod deal;
pub mod payout;
pub mod payout_run;
pub mod rate;

pub use books::Books;
