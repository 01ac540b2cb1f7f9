//! Published events.

mod booking;
mod deal;
mod republish;

use messaging::{Aggregate, Published, Republished};

pub use booking::{BookingCreated, BookingExpired};
pub use deal::{DealCancelled, DealCompleted, DealCreated, DealStageChanged};
pub use republish::Deals;

const DEAL: Aggregate = Aggregate { name: "Deal", table: "deal", key: "id" };

pub const ALL: &[Published] = &[
    Published::of::<DealCreated>(),
    Published::of::<DealStageChanged>(),
    Published::of::<DealCancelled>(),
    Published::of::<DealCompleted>(),
    Published::of::<BookingCreated>(),
    Published::of::<BookingExpired>(),
];

/// The aggregates that can be republished.
pub const REPUBLISHED: &[Republished] = &[Republished::of::<Deals>()];
