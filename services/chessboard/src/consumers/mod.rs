//! The consumers of the service.

mod company;
mod deal;
mod external_developer;
mod project_status;

use messaging::Subscription;
use service::access_revocations;

use company::Companies;
use deal::Deals;
use external_developer::ExternalDevelopers;
use project_status::ProjectStatuses;

pub const ALL: &[Subscription] = &[
    access_revocations("chessboard.access"),
    Subscription::of::<Companies>(),
    Subscription::of::<Deals>(),
    Subscription::of::<ExternalDevelopers>(),
    Subscription::of::<ProjectStatuses>(),
];
