//! What this service takes from the bus.

mod company;
mod outside_developer;
mod project_status;

use messaging::Subscription;

pub use company::Companies;
use outside_developer::OutsideDevelopers;
use project_status::ProjectStatuses;

pub const ALL: &[Subscription] = &[
    Subscription::of::<Companies>(),
    Subscription::of::<OutsideDevelopers>(),
    Subscription::of::<ProjectStatuses>(),
];
