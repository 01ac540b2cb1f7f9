//! Consumers of other services' events.

mod deal;

use messaging::Subscription;
use service::access_revocations;

use deal::Deals;

pub const ALL: &[Subscription] = &[access_revocations("messenger.access"), Subscription::of::<Deals>()];
