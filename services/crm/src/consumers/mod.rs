//! Consumers of events of chessboard and identity.

mod chessboard;
mod company;

use messaging::Subscription;
use service::access_revocations;

use chessboard::Chessboard;
use company::Companies;

pub const ALL: &[Subscription] =
    &[access_revocations("crm.access"), Subscription::of::<Chessboard>(), Subscription::of::<Companies>()];
