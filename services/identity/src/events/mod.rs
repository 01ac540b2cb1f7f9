//! Published events. The key is the company's id or the user's id.

mod company;
mod employee;

use messaging::{Aggregate, PublishedEvent};

pub use company::{Companies, CompanySuspended, CompanyUpserted};
pub use employee::{EmployeeRoleAssigned, EmployeeRoleRemoved, EmployeeStatusChanged};

const COMPANY: Aggregate = Aggregate { name: "Company", table: "tenant", key: "id" };
const EMPLOYEE: Aggregate = Aggregate { name: "Employee", table: "employee", key: "id" };

pub const ALL: &[PublishedEvent] = &[
    PublishedEvent::of::<CompanyUpserted>(),
    PublishedEvent::of::<CompanySuspended>(),
    PublishedEvent::of::<EmployeeStatusChanged>(),
    PublishedEvent::of::<EmployeeRoleAssigned>(),
    PublishedEvent::of::<EmployeeRoleRemoved>(),
];
