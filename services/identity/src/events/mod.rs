//! Published events. The key is the company's id or the user's id.

mod access;
mod company;
mod employee;

use messaging::PublishedEvent;

pub use access::{AccessRevocations, AccessRevoked};
pub use company::{Companies, CompanySuspended, CompanyUpserted};
pub use employee::{EmployeeRoleAssigned, EmployeeRoleRemoved, EmployeeStatusChanged, Employees};

pub const ALL: &[PublishedEvent] = &[
    PublishedEvent::of::<CompanyUpserted>(),
    PublishedEvent::of::<CompanySuspended>(),
    PublishedEvent::of::<EmployeeStatusChanged>(),
    PublishedEvent::of::<EmployeeRoleAssigned>(),
    PublishedEvent::of::<EmployeeRoleRemoved>(),
    PublishedEvent::of::<AccessRevoked>(),
];
