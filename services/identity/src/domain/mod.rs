//! What tenants, employees and roles are and may do. No clock, no I/O.

mod access;
mod audit;
mod employee;
mod role;
mod search;
mod tenant;

pub use access::{
    Baseline, EMPLOYEE_ROLES, Held, ManageEmployees, ManageTenants, ReadRoles, ReadTenants, RolesRead,
    Standing, TokenClaims,
};
pub use audit::{AuditAction, AuditEntry, By, ChangedField};
pub use employee::{Employee, EmployeeStatus, PersonName, WorkEmail};
pub use role::{Role, RoleAssignment};
pub use search::{Fold, SearchText};
pub use tenant::{
    LegalName, Reason, TaxNumber, Tenant, TenantName, TenantReference, TenantStatus, TenantType,
};

ids::typed_id!(
    /// A role; the same everywhere.
    RoleId
);
ids::typed_id!(
    /// An entry of the audit log.
    AuditEntryId
);
ids::typed_id!(
    /// A tenant or a person: what was acted on.
    SubjectId
);
