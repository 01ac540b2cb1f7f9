//! Consumers of other services' events.

mod deal;

use messaging::Subscription;

use deal::Deals;

pub const ALL: &[Subscription] = &[Subscription::of::<Deals>()];
