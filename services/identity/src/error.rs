//! The error codes of identity.

use values::Code;

use crate::domain::MAX_MACHINE_ACCOUNTS;

pub use ::service::Error;
pub use web::FORBIDDEN;

pub const TENANT_NOT_FOUND: Code = Code::new(404, "IDENTITY_TENANT_NOT_FOUND");
/// Rejects both a missing user and another company's employee.
pub const USER_NOT_FOUND: Code = Code::new(404, "IDENTITY_USER_NOT_FOUND");
pub const ROLE_NOT_FOUND: Code = Code::new(404, "IDENTITY_ROLE_NOT_FOUND");
pub const ROLE_ASSIGNMENT_NOT_FOUND: Code = Code::new(404, "IDENTITY_ROLE_ASSIGNMENT_NOT_FOUND");
/// Another tenant that is not Archived has the tax number (INV-IDN-002).
pub const TAX_NUMBER_TAKEN: Code = Code::new(409, "IDENTITY_TENANT_TAX_NUMBER_TAKEN");
pub const TENANT_INVALID_TRANSITION: Code = Code::new(409, "IDENTITY_TENANT_INVALID_TRANSITION");
pub const TENANT_ARCHIVED: Code = Code::new(409, "IDENTITY_TENANT_ARCHIVED");
pub const TENANT_NOT_ACTIVE: Code = Code::new(409, "IDENTITY_TENANT_NOT_ACTIVE");
/// Keeps administrators from locking out their own company.
pub const OWN_TENANT: Code = Code::new(409, "IDENTITY_OWN_TENANT");
/// A user works for at most one company (INV-IDN-004).
pub const USER_ALREADY_EMPLOYED: Code = Code::new(409, "IDENTITY_USER_ALREADY_EMPLOYED");
/// Another employee of the company has the e-mail address (INV-IDN-005).
pub const EMAIL_TAKEN: Code = Code::new(409, "IDENTITY_EMPLOYEE_EMAIL_TAKEN");
pub const EMPLOYEE_INVALID_TRANSITION: Code = Code::new(409, "IDENTITY_EMPLOYEE_INVALID_TRANSITION");
/// An active company keeps at least one administrator (INV-IDN-008).
pub const LAST_ADMIN: Code = Code::new(409, "IDENTITY_LAST_ADMIN");
/// The actor lacks a permission of the role (INV-IDN-006), or would assign a role that is kept
/// apart to themselves (INV-IDN-012).
pub const ROLE_ESCALATION_FORBIDDEN: Code =
    Code::new(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN").with_text("permissions", "crm.deals.manage-own");
/// Companies of this type cannot use the role (INV-IDN-007).
pub const ROLE_NOT_ASSIGNABLE: Code = Code::new(422, "IDENTITY_ROLE_NOT_ASSIGNABLE");
/// Rejects both a missing machine account and another company's account.
pub const MACHINE_ACCOUNT_NOT_FOUND: Code = Code::new(404, "IDENTITY_MACHINE_ACCOUNT_NOT_FOUND");
pub const MACHINE_ACCOUNT_REVOKED: Code = Code::new(409, "IDENTITY_MACHINE_ACCOUNT_REVOKED");
/// A company has the maximum number of active machine accounts (INV-IDN-013).
pub const MACHINE_ACCOUNT_LIMIT: Code =
    Code::new(409, "IDENTITY_MACHINE_ACCOUNT_LIMIT").with_arg("max", MAX_MACHINE_ACCOUNTS as u64);
/// The role is for people only (INV-IDN-014).
pub const ROLE_NOT_FOR_MACHINES: Code = Code::new(422, "IDENTITY_ROLE_NOT_FOR_MACHINES");
/// The token issuer returned no secret, or `IDENTITY_ISSUER_ADMIN_URL` is not set.
pub const ISSUER_UNAVAILABLE: Code = Code::new(503, "IDENTITY_ISSUER_UNAVAILABLE").retry_after(2);
/// Rejects an outdated version and the loser of a race.
pub const CONFLICT: Code = Code::conflict("IDENTITY_CONCURRENCY_CONFLICT");
