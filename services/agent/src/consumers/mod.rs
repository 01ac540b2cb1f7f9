//! The consumers of Kafka topics.

mod chessboard;
mod deal;

use messaging::Subscription;

use chessboard::Developers;
use deal::Deals;

pub const ALL: &[Subscription] = &[Subscription::of::<Deals>(), Subscription::of::<Developers>()];
