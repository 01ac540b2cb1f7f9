//! The consumers of Kafka topics.

mod chessboard;
mod deal;
mod identity;

use messaging::Subscription;
use service::access_revocations;

use chessboard::Developers;
use deal::Deals;
use identity::Companies;

pub const ALL: &[Subscription] = &[
    access_revocations("agent.access"),
    Subscription::of_batches::<Deals>(),
    Subscription::of::<Developers>(),
    Subscription::of::<Companies>(),
];
