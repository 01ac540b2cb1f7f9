//! Checks of permissions. A permission is always checked together with its scope.

use std::future::{Ready, ready};

use ::web::{Problem, Requirement};
use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};

use crate::extract::Actor;
use crate::grant::Scope;
use crate::id::CompanyId;

/// The companies whose data a permission covers. Other companies' data is treated as absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Platform,
    /// The company that the token names.
    Company(CompanyId),
}

impl Reach {
    pub fn covers(self, company: CompanyId) -> bool {
        match self {
            Self::Platform => true,
            Self::Company(own) => own == company,
        }
    }
}

/// Permission checks, by the kind of data that the operation concerns.
impl Actor {
    /// Checks a permission for data of the whole platform. A grant with organization scope does not
    /// suffice.
    pub fn holds_on_platform(&self, permission: &str) -> bool {
        self.holds(permission, Scope::Platform)
    }

    /// Checks a permission for data of the token's company, in either scope. Returns the company,
    /// or `None` for a token without one.
    pub fn holds_for_company(&self, permission: &str) -> Option<CompanyId> {
        self.company_id.filter(|_| self.holds(permission, Scope::Organization))
    }

    /// Checks a permission for the user's own data, in either scope and without regard to
    /// companies.
    pub fn holds_for_oneself(&self, permission: &str) -> bool {
        self.holds(permission, Scope::Organization)
    }

    /// Checks a permission for data of companies. The platform scope covers all companies. The
    /// organization scope covers the company of the token.
    pub fn reach_of(&self, permission: &str) -> Option<Reach> {
        if self.holds_on_platform(permission) {
            Some(Reach::Platform)
        } else {
            self.holds_for_company(permission).map(Reach::Company)
        }
    }

    fn holds(&self, permission: &str, scope: Scope) -> bool {
        self.grants().iter().any(|grant| grant.covers(permission, scope))
    }
}

/// A requirement on the token, which is checked before the body is read.
pub trait Permission: 'static {
    /// The result of the check, such as a company or a [`Reach`]. `()` if there is none.
    type Granted;

    /// The permissions that meet the requirement. One of them is enough. API documents list them.
    const ANY_OF: &'static [(&'static str, Scope)];

    /// Returns `None` if the actor does not meet the requirement.
    fn granted(actor: &Actor) -> Option<Self::Granted>;
}

/// A user who meets the requirement `P`. Other users get status 403 before the body is read.
pub struct Permitted<P: Permission> {
    pub actor: Actor,
    pub granted: P::Granted,
}

impl<P: Permission> Requirement for Permitted<P> {
    fn any_of() -> Vec<String> {
        P::ANY_OF.iter().map(|(name, scope)| format!("{name}@{scope}")).collect()
    }
}

impl<P: Permission> FromRequest for Permitted<P> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let actor = Actor::from_request(request, payload).into_inner();
        ready(actor.and_then(|actor| {
            let granted = P::granted(&actor).ok_or_else(Problem::forbidden)?;
            Ok(Self { actor, granted })
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use ::web::Requirement;

    use super::{Permission, Permitted, Reach};
    use crate::extract::Actor;
    use crate::grant::Scope;
    use crate::id::CompanyId;

    /// Returns a user with `permission` and optionally a company.
    fn actor_with(permission: &str, company: Option<CompanyId>) -> Actor {
        let sub = "01980000-0000-7000-8000-000000000001";
        let claims: Value = json!({
            "sub": sub, "iat": 0, "exp": 0, "company_id": company, "permissions": [permission, "other@platform"],
        });
        Actor::from_claims(Arc::new(serde_json::from_value(claims).unwrap())).unwrap()
    }

    /// RULE-ALL-050: a permission reaches as far as its scope.
    #[test]
    fn permission_reaches_as_far_as_its_scope() {
        let own = CompanyId::generate();
        for (permission, company, on_platform, for_company, for_oneself, reach) in [
            ("p@platform", Some(own), true, Some(own), true, Some(Reach::Platform)),
            ("p@platform", None, true, None, true, Some(Reach::Platform)),
            ("p@organization", Some(own), false, Some(own), true, Some(Reach::Company(own))),
            ("p", Some(own), false, Some(own), true, Some(Reach::Company(own))),
            ("p", None, false, None, true, None),
            ("p@elsewhere", Some(own), false, None, false, None),
            ("p.q@platform", Some(own), false, None, false, None),
        ] {
            let actor = actor_with(permission, company);
            assert_eq!(
                (
                    actor.holds_on_platform("p"),
                    actor.holds_for_company("p"),
                    actor.holds_for_oneself("p"),
                    actor.reach_of("p")
                ),
                (on_platform, for_company, for_oneself, reach),
                "{permission} {company:?}"
            );
        }
        assert!(Reach::Company(own).covers(own) && !Reach::Company(own).covers(CompanyId::generate()));
        assert!(Reach::Platform.covers(own));
    }

    enum ManageDeals {}

    impl Permission for ManageDeals {
        type Granted = ();

        const ANY_OF: &'static [(&'static str, Scope)] =
            &[("deals.manage", Scope::Platform), ("deals.own.manage", Scope::Organization)];

        fn granted(_: &Actor) -> Option<()> {
            Some(())
        }
    }

    /// Documents name each permission with its scope.
    #[test]
    fn requirement_names_its_permissions_with_their_scopes() {
        let names = Permitted::<ManageDeals>::any_of();
        assert_eq!(names, ["deals.manage@platform", "deals.own.manage@organization"]);
    }
}
