//! Roles: named sets of permissions.

use auth::{Grant, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use time::OffsetDateTime;

use super::{RoleId, TenantType};
use crate::db::schema::{employee_role, role};

/// Permission that makes a role an administrator role.
pub const MANAGE_EMPLOYEE_ROLES: &str = "identity.employee-roles.manage";

/// A role. The migration writes all roles, and no operation changes them.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = role, check_for_backend(Pg))]
pub struct Role {
    pub id: RoleId,
    pub code: String,
    pub assignable_to: Vec<TenantType>,
    /// Permissions, sorted by code point.
    pub permissions: Vec<String>,
    /// No administrator role includes the permissions (INV-IDN-012).
    pub is_kept_apart: bool,
}

/// A role of an employee.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = employee_role, check_for_backend(Pg))]
pub struct RoleAssignment {
    #[diesel(embed)]
    pub role: Role,
    pub assigned_at: OffsetDateTime,
    pub assigned_by_user_id: UserId,
}

impl Role {
    /// Returns the code of the administrator role of companies of this type.
    pub fn admin_code(kind: TenantType) -> &'static str {
        match kind {
            TenantType::Developer => "developer-admin",
            TenantType::Agency => "agency-admin",
            TenantType::Partner => "partner-admin",
            TenantType::Platform => "platform-admin",
        }
    }

    /// Returns true if companies of this type can use the role (INV-IDN-007).
    pub fn is_assignable_to(&self, kind: TenantType) -> bool {
        self.assignable_to.contains(&kind)
    }

    /// Returns true if employees with this role administer their company.
    pub fn is_admin_role(&self) -> bool {
        self.grants().any(|grant| grant.name == MANAGE_EMPLOYEE_ROLES)
    }

    pub fn grants(&self) -> impl Iterator<Item = Grant> {
        self.permissions.iter().filter_map(|permission| Grant::parse(permission))
    }
}
