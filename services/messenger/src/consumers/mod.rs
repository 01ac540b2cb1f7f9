//! What this service takes from the bus.

mod deal;

use messaging::Subscription;

pub use deal::Deals;

pub const ALL: &[Subscription] = &[Subscription::of::<Deals>()];
