//! Roles: named sets of permissions.

use auth::{Grant, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use time::OffsetDateTime;

use super::{RoleId, TenantType};
use crate::schema::{employee_role, role};

/// Permission that makes a role an administrator role.
pub const MANAGE_EMPLOYEE_ROLES: &str = "identity.employee-roles.manage";

/// Permissions whose decisions depend on the person who decides. A bonus needs two employees. The
/// agent and the client of a deal must not decide about the deal.
const PERSON_DEPENDENT_PERMISSIONS: [&str; 2] = ["agent.commissions.manage", "crm.deals.manage"];

/// A role. The migration writes all roles, and no operation changes them.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = role, check_for_backend(Pg))]
pub struct Role {
    pub id: RoleId,
    pub code: String,
    pub assignable_to: Vec<TenantType>,
    /// Permissions, sorted by code point.
    pub permissions: Vec<String>,
    /// True if no administrator role may include the permissions (INV-IDN-012).
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

    /// Returns true if machine accounts can have this role (INV-IDN-014).
    ///
    /// An administrator who knows the secret of an account can act as the account, so the account
    /// must not count as a second person. Only people have roles of administrators, roles that are
    /// kept apart, and roles whose decisions depend on the person.
    pub fn is_for_machines(&self) -> bool {
        let needs_people =
            self.grants().any(|grant| PERSON_DEPENDENT_PERMISSIONS.contains(&grant.name.as_str()));
        !self.is_admin_role() && !self.is_kept_apart && !needs_people
    }

    pub fn grants(&self) -> impl Iterator<Item = Grant> {
        self.permissions.iter().filter_map(|permission| Grant::parse(permission))
    }
}

#[cfg(test)]
mod tests {
    use auth::Grant;

    use super::{MANAGE_EMPLOYEE_ROLES, Role, RoleId, TenantType};

    fn role(permissions: &[&str]) -> Role {
        Role {
            id: RoleId::generate(),
            code: "agent".to_owned(),
            assignable_to: vec![TenantType::Agency],
            permissions: permissions.iter().map(|permission| (*permission).to_owned()).collect(),
            is_kept_apart: false,
        }
    }

    /// A role is an administrator role by its permission, in either scope.
    #[test]
    fn role_that_manages_employees_is_an_administrator_role() {
        assert!(role(&["a", MANAGE_EMPLOYEE_ROLES]).is_admin_role());
        assert!(role(&[&format!("{MANAGE_EMPLOYEE_ROLES}@platform")]).is_admin_role());
        assert!(!role(&["a", "b@platform"]).is_admin_role() && !role(&[]).is_admin_role());
        let grants: Vec<_> = role(&["a", "b@platform"]).grants().collect();
        assert_eq!(grants, ["a", "b@platform"].map(|text| Grant::parse(text).unwrap()));
    }

    /// A role is assignable to companies of its types alone, and each type has an administrator
    /// role.
    #[test]
    fn role_is_assignable_to_its_types_alone() {
        let role = role(&[]);
        assert!(role.is_assignable_to(TenantType::Agency) && !role.is_assignable_to(TenantType::Developer));
        let kinds = [TenantType::Developer, TenantType::Agency, TenantType::Partner, TenantType::Platform];
        let codes = ["developer-admin", "agency-admin", "partner-admin", "platform-admin"];
        assert_eq!(kinds.map(Role::admin_code), codes);
    }
}
