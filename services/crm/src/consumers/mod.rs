//! The consumers of the service, one file for each publisher.

mod chessboard;
mod identity;

use messaging::Subscription;
use service::access_revocations;

use chessboard::Chessboard;
use identity::Identity;

pub const ALL: &[Subscription] =
    &[access_revocations("crm.access"), Subscription::of::<Chessboard>(), Subscription::of::<Identity>()];
