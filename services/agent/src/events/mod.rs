//! The published event types.

mod accrual;
mod payout;

use messaging::{Aggregate, PublishedEvent};

pub use accrual::AccrualChanged;
pub use payout::PayoutStatusChanged;

const ACCRUAL: Aggregate = Aggregate { name: "Accrual", table: "accrual", key: "id" };
const PAYOUT: Aggregate = Aggregate { name: "Payout", table: "payout", key: "id" };

pub const ALL: &[PublishedEvent] =
    &[PublishedEvent::of::<AccrualChanged>(), PublishedEvent::of::<PayoutStatusChanged>()];
