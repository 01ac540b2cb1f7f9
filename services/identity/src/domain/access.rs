//! Who may do what, and what a person holds now.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use auth::{Actor, CompanyId, Grant, Permission, Scope, UserId};
use serde::Serialize;
use utoipa::ToSchema;

use super::{EmployeeStatus, Role, TenantStatus};

const READ_TENANTS: &str = "identity.tenants.read";
const MANAGE_TENANTS: &str = "identity.tenants.manage";
/// Who holds it in a role administers the company.
pub const EMPLOYEE_ROLES: &str = "identity.employee-roles.manage";

/// Administrators of the platform who read.
pub enum ReadTenants {}

impl Permission for ReadTenants {
    type Granted = ();

    fn granted(actor: &Actor) -> Option<()> {
        [READ_TENANTS, MANAGE_TENANTS].iter().any(|name| actor.holds_on_platform(name)).then_some(())
    }
}

/// Administrators of the platform who change something.
pub enum ManageTenants {}

impl Permission for ManageTenants {
    type Granted = ();

    fn granted(actor: &Actor) -> Option<()> {
        actor.holds_on_platform(MANAGE_TENANTS).then_some(())
    }
}

/// Partners, who administer their own company, which this gives.
pub enum ManageEmployees {}

impl Permission for ManageEmployees {
    type Granted = CompanyId;

    fn granted(actor: &Actor) -> Option<CompanyId> {
        actor.holds_for_company(EMPLOYEE_ROLES)
    }
}

/// Whoever may know which roles there are.
pub enum ReadRoles {}

/// Which roles they may know of.
pub enum RolesRead {
    All,
    /// Those that are for this company's type.
    OfCompany(CompanyId),
}

impl Permission for ReadRoles {
    type Granted = RolesRead;

    fn granted(actor: &Actor) -> Option<RolesRead> {
        match ReadTenants::granted(actor) {
            Some(()) => Some(RolesRead::All),
            None => ManageEmployees::granted(actor).map(RolesRead::OfCompany),
        }
    }
}

/// What everybody may do who is not suspended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline(BTreeSet<String>);

impl Default for Baseline {
    fn default() -> Self {
        Self(BTreeSet::from(["news.posts.manage-own".to_owned()]))
    }
}

impl FromStr for Baseline {
    type Err = NoPermission;

    fn from_str(text: &str) -> Result<Self, NoPermission> {
        let permissions = text.split(',').map(str::trim).filter(|text| !text.is_empty());
        let permissions = permissions.map(|text| match Grant::parse(text) {
            Some(_) => Ok(text.to_owned()),
            None => Err(NoPermission(text.to_owned())),
        });
        permissions.collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(String::as_str).collect::<Vec<_>>().join(","))
    }
}

/// A text that is no permission.
#[derive(Debug)]
pub struct NoPermission(String);

impl fmt::Display for NoPermission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is no permission", self.0)
    }
}

/// What identity keeps of an employee that decides over their tokens.
#[derive(Clone, Debug)]
pub struct Standing {
    pub company_id: CompanyId,
    pub company_status: TenantStatus,
    pub status: EmployeeStatus,
    /// Of all roles.
    pub permissions: Vec<String>,
}

/// What a token of a person is to say.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TokenClaims {
    pub user_id: UserId,
    pub company_id: Option<CompanyId>,
    /// Distinct, sorted by code point.
    pub permissions: Vec<String>,
}

impl TokenClaims {
    /// `standing` is null for nobody's employee.
    pub fn of(user_id: UserId, standing: Option<&Standing>, baseline: &Baseline) -> Self {
        let Some(standing) = standing else {
            return Self { user_id, company_id: None, permissions: baseline.0.iter().cloned().collect() };
        };
        if standing.status == EmployeeStatus::Suspended {
            return Self { user_id, company_id: None, permissions: Vec::new() };
        }
        let is_active = standing.company_status == TenantStatus::Active;
        let roles = standing.permissions.iter().filter(|_| is_active);
        let permissions: BTreeSet<_> = baseline.0.iter().chain(roles).cloned().collect();
        Self {
            user_id,
            company_id: is_active.then_some(standing.company_id),
            permissions: permissions.into_iter().collect(),
        }
    }
}

/// INV-IDN-009: what an actor holds at this moment.
pub struct Held<'a> {
    token: &'a [Grant],
    /// What a token would say that was made now; `None` for nobody's employee, of whom the token alone tells.
    kept: Option<Vec<Grant>>,
}

impl<'a> Held<'a> {
    /// `None` where the token and what is kept name different companies.
    pub fn of(actor: &'a Actor, standing: Option<&Standing>, baseline: &Baseline) -> Option<Self> {
        let token = actor.grants();
        let Some(standing) = standing else { return Some(Self { token, kept: None }) };
        let now = TokenClaims::of(actor.user_id, Some(standing), baseline);
        (now.company_id == actor.company_id).then(|| {
            let kept = now.permissions.iter().filter_map(|permission| Grant::parse(permission)).collect();
            Self { token, kept: Some(kept) }
        })
    }

    /// Whether they may change what concerns the whole platform.
    pub fn manages_tenants(&self) -> bool {
        self.covers(MANAGE_TENANTS, Scope::Platform)
    }

    /// Whether they may change what is of their own company.
    pub fn manages_employees(&self) -> bool {
        self.covers(EMPLOYEE_ROLES, Scope::Organization)
    }

    /// INV-IDN-006: what the role gives and they do not hold, at least in `scope`.
    pub fn missing_of(&self, role: &Role, scope: Scope) -> Vec<String> {
        let is_missing = |permission: &&String| {
            !Grant::parse(permission).is_some_and(|given| self.covers(&given.name, given.scope.max(scope)))
        };
        role.permissions.iter().filter(is_missing).cloned().collect()
    }

    fn covers(&self, name: &str, scope: Scope) -> bool {
        let covered = |grants: &[Grant]| grants.iter().any(|grant| grant.covers(name, scope));
        covered(self.token) && self.kept.as_deref().is_none_or(covered)
    }
}

#[cfg(test)]
mod tests {
    use auth::CompanyId;

    use super::{Baseline, Standing, TokenClaims};
    use crate::domain::{EmployeeStatus, TenantStatus};

    #[test]
    fn a_token_says_what_status_and_roles_give() {
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
            let standing = Standing { company_id, company_status, status, permissions: given };
            let claims = TokenClaims::of(user_id, Some(&standing), &baseline);
            assert_eq!(
                (claims.company_id, claims.permissions),
                (company, permissions.iter().map(|p| (*p).to_owned()).collect())
            );
        }
        let nobodys = TokenClaims::of(user_id, None, &baseline);
        assert_eq!(
            (nobodys.company_id, nobodys.permissions),
            (None, vec!["a.own@platform".to_owned(), "b.own".to_owned()])
        );
    }

    #[test]
    fn a_baseline_is_of_permissions() {
        assert_eq!(Baseline::default().to_string(), "news.posts.manage-own");
        for wrong in ["a@", "a@elsewhere", "@platform", "a,b@c"] {
            assert!(wrong.parse::<Baseline>().is_err(), "{wrong}");
        }
    }
}
