//! What this service tells.

mod booking;
mod deal;

use messaging::{Aggregate, Published};

pub use booking::{BookingCreated, BookingExpired};
pub use deal::{DealCancelled, DealCompleted, DealCreated, DealStageChanged};

const DEAL: Aggregate = Aggregate { name: "Deal", table: "deal", key: "id" };

pub const ALL: &[Published] = &[
    Published::of::<DealCreated>(),
    Published::of::<DealStageChanged>(),
    Published::of::<DealCancelled>(),
    Published::of::<DealCompleted>(),
    Published::of::<BookingCreated>(),
    Published::of::<BookingExpired>(),
];
