//! What this service takes from the bus.

mod company;
mod deal;
mod outside_developer;
mod project_status;

use messaging::Subscription;

pub use company::Companies;
use deal::Deals;
use outside_developer::OutsideDevelopers;
use project_status::ProjectStatuses;

pub const ALL: &[Subscription] = &[
    Subscription::of::<Companies>(),
    Subscription::of::<Deals>(),
    Subscription::of::<OutsideDevelopers>(),
    Subscription::of::<ProjectStatuses>(),
];
