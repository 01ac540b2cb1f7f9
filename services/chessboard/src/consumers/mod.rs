//! The consumers of the service, one file for each publisher.

mod chessboard;
mod crm;
mod external_chessboard;
mod identity;

use messaging::Subscription;
use service::access_revocations;

use chessboard::ProjectStatuses;
use crm::Deals;
use external_chessboard::ExternalDevelopers;
use identity::Companies;

pub const ALL: &[Subscription] = &[
    access_revocations("chessboard.access"),
    Subscription::of::<Companies>(),
    Subscription::of::<Deals>(),
    Subscription::of::<ExternalDevelopers>(),
    Subscription::of::<ProjectStatuses>(),
];
