//! The consumers of the service, one file for each publisher.

mod chessboard;

use messaging::Subscription;
use service::access_revocations;

use chessboard::Chessboard;

pub const ALL: &[Subscription] = &[access_revocations("selections.access"), Subscription::of::<Chessboard>()];
