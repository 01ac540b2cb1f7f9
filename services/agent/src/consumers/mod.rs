//! What this service takes from the bus.

use messaging::Subscription;

pub const ALL: &[Subscription] = &[];
