//! The published event types.

mod accrual;
mod payout;

use messaging::PublishedEvent;

pub use accrual::AccrualChanged;
pub use payout::PayoutStatusChanged;

pub const ALL: &[PublishedEvent] =
    &[PublishedEvent::of::<AccrualChanged>(), PublishedEvent::of::<PayoutStatusChanged>()];
