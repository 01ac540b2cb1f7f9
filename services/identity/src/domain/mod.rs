//! Tenants, employees, roles and their rules, without clock and I/O.

mod access;
mod audit;
mod employee;
mod role;
mod search;
mod tenant;

pub use access::{
    Baseline, EffectivePermissions, EmploymentState, MANAGE_EMPLOYEE_ROLES, ManageEmployees, ManageTenants,
    ReadRoles, ReadTenants, ReadableRoles, TokenClaims,
};
pub use audit::{AuditAction, AuditActor, AuditEntry, ChangedField};
pub use employee::{Employee, EmployeeStatus, PersonName, WorkEmail};
pub use role::{Role, RoleAssignment};
pub use search::{FoldedQuery, SearchText};
pub use tenant::{
    LegalName, Reason, TaxNumber, Tenant, TenantName, TenantReference, TenantStatus, TenantType,
};

ids::typed_id!(
    /// Id of a role, equal in every installation.
    RoleId
);
ids::typed_id!(
    /// Id of an entry of the audit log.
    AuditEntryId
);
ids::typed_id!(
    /// Id of the tenant or user that an action changed.
    SubjectId
);
