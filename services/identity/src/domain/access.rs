//! Permissions of operations, claims of users and the actor check.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use auth::{Actor, CompanyId, Grant, Permission, Scope, UserId};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::{EmployeeStatus, MANAGE_EMPLOYEE_ROLES, Role, TenantStatus};

const READ_TENANTS: &str = "identity.tenants.read";
const MANAGE_TENANTS: &str = "identity.tenants.manage";

/// Permission of administrators of the platform to read tenants.
pub enum ReadTenants {}

impl Permission for ReadTenants {
    type Granted = ();
    const ANY_OF: &'static [(&'static str, Scope)] =
        &[(READ_TENANTS, Scope::Platform), (MANAGE_TENANTS, Scope::Platform)];

    fn granted(actor: &Actor) -> Option<()> {
        [READ_TENANTS, MANAGE_TENANTS].iter().any(|name| actor.holds_on_platform(name)).then_some(())
    }
}

/// Permission of administrators of the platform to change tenants.
pub enum ManageTenants {}

impl Permission for ManageTenants {
    type Granted = ();
    const ANY_OF: &'static [(&'static str, Scope)] = &[(MANAGE_TENANTS, Scope::Platform)];

    fn granted(actor: &Actor) -> Option<()> {
        actor.holds_on_platform(MANAGE_TENANTS).then_some(())
    }
}

/// Permission of a company's administrators to manage its employees. `Granted` is the company's id.
pub enum ManageEmployees {}

impl Permission for ManageEmployees {
    type Granted = CompanyId;
    const ANY_OF: &'static [(&'static str, Scope)] = &[(MANAGE_EMPLOYEE_ROLES, Scope::Organization)];

    fn granted(actor: &Actor) -> Option<CompanyId> {
        actor.holds_for_company(MANAGE_EMPLOYEE_ROLES)
    }
}

/// Permission to list roles.
pub enum ReadRoles {}

/// Roles that a caller may list.
pub enum ReadableRoles {
    All,
    /// Roles that are assignable to the type of this company.
    OfCompany(CompanyId),
}

impl Permission for ReadRoles {
    type Granted = ReadableRoles;
    const ANY_OF: &'static [(&'static str, Scope)] = &[
        (READ_TENANTS, Scope::Platform),
        (MANAGE_TENANTS, Scope::Platform),
        (MANAGE_EMPLOYEE_ROLES, Scope::Organization),
    ];

    fn granted(actor: &Actor) -> Option<ReadableRoles> {
        match ReadTenants::granted(actor) {
            Some(()) => Some(ReadableRoles::All),
            None => ManageEmployees::granted(actor).map(ReadableRoles::OfCompany),
        }
    }
}

/// Permissions of every user who is not a suspended employee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline(BTreeSet<String>);

impl Default for Baseline {
    fn default() -> Self {
        Self(BTreeSet::from(["news.posts.manage-own".to_owned()]))
    }
}

impl FromStr for Baseline {
    type Err = InvalidPermission;

    fn from_str(text: &str) -> Result<Self, InvalidPermission> {
        let permissions = text.split(',').map(str::trim).filter(|text| !text.is_empty());
        let permissions = permissions.map(|text| match Grant::parse(text) {
            Some(_) => Ok(text.to_owned()),
            None => Err(InvalidPermission(text.to_owned())),
        });
        permissions.collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(String::as_str).collect::<Vec<_>>().join(","))
    }
}

/// Error of a text that does not parse as a permission.
#[derive(Debug)]
pub struct InvalidPermission(String);

impl fmt::Display for InvalidPermission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not a permission", self.0)
    }
}

/// The part of a user's employment that determines the claims.
#[derive(Clone, Debug)]
pub struct EmploymentState {
    pub company_id: CompanyId,
    pub company_status: TenantStatus,
    pub status: EmployeeStatus,
    /// Permissions of all roles.
    pub permissions: Vec<String>,
    /// True for a machine account, which has the permissions of its roles without the baseline.
    pub is_machine: bool,
}

/// Claims that the issuer writes into a user's token.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TokenClaims {
    pub user_id: UserId,
    pub company_id: Option<CompanyId>,
    /// Distinct permissions, sorted by code point.
    pub permissions: Vec<String>,
}

impl TokenClaims {
    /// Computes the claims of a user. `employment` is `None` for a user who is not an employee.
    pub fn of(user_id: UserId, employment: Option<&EmploymentState>, baseline: &Baseline) -> Self {
        let Some(employment) = employment else {
            return Self { user_id, company_id: None, permissions: baseline.0.iter().cloned().collect() };
        };
        if employment.status == EmployeeStatus::Suspended {
            return Self { user_id, company_id: None, permissions: Vec::new() };
        }
        let is_active = employment.company_status == TenantStatus::Active;
        let baseline = baseline.0.iter().filter(|_| !employment.is_machine);
        let roles = employment.permissions.iter().filter(|_| is_active);
        let permissions: BTreeSet<_> = baseline.chain(roles).cloned().collect();
        Self {
            user_id,
            company_id: is_active.then_some(employment.company_id),
            permissions: permissions.into_iter().collect(),
        }
    }
}

/// The employment of a user, and the last departure.
#[derive(Clone, Debug, Default)]
pub struct EmploymentRecord {
    pub employment: Option<EmploymentState>,
    /// The last time at which the user left a company. For a machine account the last revocation of
    /// its tokens.
    pub left_at: Option<OffsetDateTime>,
}

impl EmploymentRecord {
    /// Returns true if the user has left a company since the token was issued, or if a machine
    /// account's tokens were revoked since then.
    ///
    /// `iat` has whole seconds, so the order within the second of the departure is unknown. A token
    /// of that second counts as older if the user has no employment now. Otherwise such a token
    /// stays valid, because the current claims limit it. A machine account always has an employment
    /// here, so its tokens of that second stay valid.
    fn has_left_since_token_issue(&self, actor: &Actor) -> bool {
        self.left_at.is_some_and(|left_at| {
            let first_valid_second = left_at.unix_timestamp() + i64::from(self.employment.is_none());
            actor.issued_at() < first_valid_second
        })
    }
}

/// The age up to which a read trusts a token. With the tolerated clock skew of 30 s, a user can
/// read for up to a minute after a loss of rights.
const TRUSTED_TOKEN_SECONDS: i64 = 30;

/// Returns true if a read trusts the token and need not read the current claims.
pub fn is_trusted_for_reads(actor: &Actor, now: OffsetDateTime) -> bool {
    now.unix_timestamp() - actor.issued_at() < TRUSTED_TOKEN_SECONDS
}

/// Permissions that an actor currently holds (INV-IDN-009).
pub struct EffectivePermissions {
    /// The actor with the grants that both the token and the current claims contain. For a user who
    /// is not an employee, only the token counts.
    actor: Actor,
    is_employee: bool,
}

impl EffectivePermissions {
    /// Computes the current permissions of an actor. Returns `None` if the actor has left a company
    /// since the token was issued, or if the token and the current claims name different companies.
    pub fn of(actor: &Actor, record: &EmploymentRecord, baseline: &Baseline) -> Option<Self> {
        if record.has_left_since_token_issue(actor) {
            return None;
        }
        let Some(employment) = &record.employment else {
            return Some(Self { actor: actor.clone(), is_employee: false });
        };
        let claims = TokenClaims::of(actor.user_id, Some(employment), baseline);
        (claims.company_id == actor.company_id).then(|| {
            let current: Vec<_> =
                claims.permissions.iter().filter_map(|permission| Grant::parse(permission)).collect();
            let common = actor.grants().iter().flat_map(|grant| {
                current
                    .iter()
                    .filter(|other| other.name == grant.name)
                    .map(|other| Grant { name: grant.name.clone(), scope: grant.scope.min(other.scope) })
            });
            Self { actor: actor.with_grants(common.collect()), is_employee: true }
        })
    }

    /// Returns the result of the check of `P`, or `None` if the actor does not meet `P` now.
    pub fn granted<P: Permission>(&self) -> Option<P::Granted> {
        P::granted(&self.actor)
    }

    /// Returns the permissions that keep the actor from assigning the role to `user`, which is
    /// `None` for a new user and for a machine account.
    ///
    /// Actors can assign only permissions that they hold both in the permission's own scope and in
    /// `scope` (INV-IDN-006). A role that is kept apart has its own rule (INV-IDN-012).
    /// Administrators of the platform can assign it to colleagues even if they lack its
    /// permissions. No user can assign it to themselves, so the result is then all its permissions.
    pub fn missing_to_assign(&self, role: &Role, user: Option<UserId>, scope: Scope) -> Vec<String> {
        if role.is_kept_apart && user == Some(self.actor.user_id) {
            return role.permissions.clone();
        }
        if role.is_kept_apart && self.is_employee && self.actor.holds_on_platform(MANAGE_EMPLOYEE_ROLES) {
            return Vec::new();
        }
        let is_missing = |permission: &&String| {
            !Grant::parse(permission).is_some_and(|given| self.covers(&given.name, given.scope.max(scope)))
        };
        role.permissions.iter().filter(is_missing).cloned().collect()
    }

    fn covers(&self, name: &str, scope: Scope) -> bool {
        self.actor.grants().iter().any(|grant| grant.covers(name, scope))
    }
}

#[cfg(test)]
mod tests {
    use auth::CompanyId;

    use super::{Baseline, EmploymentState, TokenClaims};
    use crate::domain::{EmployeeStatus, TenantStatus};

    /// RULE-IDN-016: claims follow the status of employee and company, and the roles.
    #[test]
    fn claims_follow_status_and_roles() {
        use {EmployeeStatus as Employee, TenantStatus as Tenant};
        let (user_id, company_id) = (uuid::Uuid::from_u128(7).into(), CompanyId::generate());
        let baseline: Baseline = "b.own, a.own@platform".parse().unwrap();
        let (none, base) = (&[] as &[&str], &["a.own@platform", "b.own"] as &[&str]);
        let all = &["Z", "a.own@platform", "b.own", "c"] as &[&str];
        for (status, company_status, company, permissions) in [
            (Employee::Active, Tenant::Active, Some(company_id), all),
            (Employee::Active, Tenant::Suspended, None, base),
            (Employee::Active, Tenant::Archived, None, base),
            (Employee::Suspended, Tenant::Active, None, none),
            (Employee::Suspended, Tenant::Archived, None, none),
        ] {
            let given = ["c", "b.own", "Z", "c"].map(str::to_owned).to_vec();
            let employment =
                EmploymentState { company_id, company_status, status, permissions: given, is_machine: false };
            let claims = TokenClaims::of(user_id, Some(&employment), &baseline);
            assert_eq!(
                (claims.company_id, claims.permissions),
                (company, permissions.iter().map(|p| (*p).to_owned()).collect())
            );
        }
        let unemployed = TokenClaims::of(user_id, None, &baseline);
        assert_eq!(
            (unemployed.company_id, unemployed.permissions),
            (None, vec!["a.own@platform".to_owned(), "b.own".to_owned()])
        );
    }

    /// RULE-IDN-016: the baseline consists of valid permissions.
    #[test]
    fn baseline_with_an_invalid_permission_is_rejected() {
        assert_eq!(Baseline::default().to_string(), "news.posts.manage-own");
        for wrong in ["a@", "a@elsewhere", "@platform", "a,b@c"] {
            assert!(wrong.parse::<Baseline>().is_err(), "{wrong}");
        }
        assert_eq!("a,b@c".parse::<Baseline>().unwrap_err().to_string(), "b@c is not a permission");
    }
}
