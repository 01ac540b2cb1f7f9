//! The consumers of the service, one file for each publisher.

mod crm;
mod identity;

use messaging::Subscription;
use service::access_revocations;

pub use crm::Deals;
use identity::Identity;

pub const ALL: &[Subscription] =
    &[access_revocations("messenger.access"), Subscription::of::<Deals>(), Subscription::of::<Identity>()];
