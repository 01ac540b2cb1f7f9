//! Consumers of other services' events.

mod deal;
mod identity;

use messaging::Subscription;
use service::access_revocations;

use deal::Deals;
use identity::Identity;

pub const ALL: &[Subscription] =
    &[access_revocations("messenger.access"), Subscription::of::<Deals>(), Subscription::of::<Identity>()];
