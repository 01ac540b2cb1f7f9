//! Consumers of other services' events.

mod deal;
mod employee;

use messaging::Subscription;
use service::access_revocations;

use deal::Deals;
use employee::Employees;

pub const ALL: &[Subscription] =
    &[access_revocations("messenger.access"), Subscription::of::<Deals>(), Subscription::of::<Employees>()];
