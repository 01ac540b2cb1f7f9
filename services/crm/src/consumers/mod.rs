//! Consumers of events of chessboard and identity.

mod chessboard;
mod company;

use messaging::Subscription;

use chessboard::Chessboard;
use company::Companies;

pub const ALL: &[Subscription] = &[Subscription::of::<Chessboard>(), Subscription::of::<Companies>()];
