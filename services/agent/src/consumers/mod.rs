//! The consumers of the service, one file for each publisher.

mod chessboard;
mod crm;
mod identity;

use messaging::Subscription;
use service::access_revocations;

use chessboard::Developers;
use crm::Deals;
use identity::Companies;

pub const ALL: &[Subscription] = &[
    access_revocations("agent.access"),
    Subscription::of_batches::<Deals>(),
    Subscription::of::<Developers>(),
    Subscription::of::<Companies>(),
];
