//! Published events.

mod booking;
mod deal;
mod republish;
mod restore;

use messaging::{PublishedEvent, Republisher, Restorer};

pub use booking::{BookingCreated, BookingExpired};
pub use deal::{DealCancelled, DealCompleted, DealCreated, DealStageChanged};
pub use republish::Deals;

pub const ALL: &[PublishedEvent] = &[
    PublishedEvent::of::<DealCreated>(),
    PublishedEvent::of::<DealStageChanged>(),
    PublishedEvent::of::<DealCancelled>(),
    PublishedEvent::of::<DealCompleted>(),
    PublishedEvent::of::<BookingCreated>(),
    PublishedEvent::of::<BookingExpired>(),
];

/// The aggregates that can be republished.
pub const REPUBLISHED: &[Republisher] = &[Republisher::of::<Deals>()];

/// The aggregates whose lost rows and versions `crm restored` publishes after a restore of the
/// database.
pub const RESTORED: &[Restorer] = &[Restorer::of::<Deals>()];
