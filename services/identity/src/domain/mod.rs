//! Tenants, employees, roles and their rules, without clock and I/O.

mod access;
mod audit;
mod changed_field;
mod employee;
mod machine_account;
mod revocation;
mod role;
mod search;
mod tenant;

pub use access::{
    Baseline, EffectivePermissions, EmploymentRecord, EmploymentState, ManageEmployees, ManageTenants,
    ReadRoles, ReadTenants, ReadableRoles, TokenClaims, is_trusted_for_reads,
};
pub use audit::{AuditAction, AuditActor, AuditEntry};
pub use changed_field::ChangedField;
pub use employee::{Employee, EmployeeStatus, PersonName, WorkEmail};
pub use machine_account::{
    ClientSecret, MAX_MACHINE_ACCOUNTS, MachineAccount, MachineAccountName, MachineAccountStatus,
    MachineRoles, RoleChange,
};
pub use revocation::{AccessRevocation, RevokedSubject, SubjectKind};
pub use role::{MANAGE_EMPLOYEE_ROLES, Role, RoleAssignment};
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
    /// Id of the tenant, user or machine account that an action changed.
    SubjectId
);
