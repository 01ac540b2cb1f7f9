//! A role: what its holders may do, as tokens write it.

use auth::{Grant, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use time::OffsetDateTime;

use super::{EMPLOYEE_ROLES, RoleId, TenantType};
use crate::db::schema::{employee_role, role};

/// A role. A migration writes it; nothing changes it.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = role, check_for_backend(Pg))]
pub struct Role {
    pub id: RoleId,
    pub code: String,
    pub assignable_to: Vec<TenantType>,
    /// Sorted by code point.
    pub permissions: Vec<String>,
}

/// A role that somebody has.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = employee_role, check_for_backend(Pg))]
pub struct RoleAssignment {
    #[diesel(embed)]
    pub role: Role,
    pub assigned_at: OffsetDateTime,
    pub assigned_by_user_id: UserId,
}

impl Role {
    /// The role of those who administer a company of this type.
    pub fn code_of_admins(of: TenantType) -> &'static str {
        match of {
            TenantType::Developer => "developer-admin",
            TenantType::Agency => "agency-admin",
            TenantType::Partner => "partner-admin",
            TenantType::Platform => "platform-admin",
        }
    }

    /// INV-IDN-007
    pub fn is_assignable_to(&self, kind: TenantType) -> bool {
        self.assignable_to.contains(&kind)
    }

    /// Whether its holders administer their company.
    pub fn is_admins(&self) -> bool {
        self.grants().any(|grant| grant.name == EMPLOYEE_ROLES)
    }

    /// What it gives.
    pub fn grants(&self) -> impl Iterator<Item = Grant> {
        self.permissions.iter().filter_map(|permission| Grant::parse(permission))
    }
}
