//! Published events. The key is the company's id or the user's id.

mod access;
mod company;
mod employee;

use messaging::{PublishedEvent, Republisher, Restorer};

use access::AccessRevocations;
use company::Companies;
use employee::Employees;

pub use access::AccessRevoked;
pub use company::{CompanySuspended, CompanyUpserted};
pub use employee::{EmployeeRoleAssigned, EmployeeRoleRemoved, EmployeeStatusChanged};

pub const ALL: &[PublishedEvent] = &[
    PublishedEvent::of::<CompanyUpserted>(),
    PublishedEvent::of::<CompanySuspended>(),
    PublishedEvent::of::<EmployeeStatusChanged>(),
    PublishedEvent::of::<EmployeeRoleAssigned>(),
    PublishedEvent::of::<EmployeeRoleRemoved>(),
    PublishedEvent::of::<AccessRevoked>(),
];

/// The aggregates that can be republished.
pub const REPUBLISHED: &[Republisher] =
    &[Republisher::of::<Companies>(), Republisher::of::<Employees>(), Republisher::of::<AccessRevocations>()];

/// The aggregates whose lost rows and versions `identity restored` publishes after a restore of the
/// database.
pub const RESTORED: &[Restorer] = &[Restorer::of::<Companies>(), Restorer::of::<Employees>()];
