//! The use cases. Each runs in the transaction of its caller.

pub mod accrual;
pub mod adjustment;
pub mod assignment;
pub mod bonus;
mod books;
pub mod deal;
pub mod payout;
pub mod payout_run;
pub mod rate;

pub use books::Books;
