//! What a person may do, and how far: a permission never counts without its scope.

use std::future::{Ready, ready};

use ::web::Problem;
use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use serde::{Deserialize, Deserializer};

use crate::{Actor, CompanyId};

/// In which scope a permission was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The company that the token names.
    Organization,
    /// Every company.
    Platform,
}

/// A permission as somebody holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub name: String,
    pub scope: Scope,
}

impl Grant {
    /// As tokens spell it: `crm.deals.manage@platform`, and `@organization` or nothing for the other scope. A
    /// text with another scope, or without a name, is no permission and gives nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, scope) = match text.split_once('@') {
            None => (text, Scope::Organization),
            Some((name, "organization")) => (name, Scope::Organization),
            Some((name, "platform")) => (name, Scope::Platform),
            Some(_) => return None,
        };
        (!name.is_empty()).then(|| Self { name: name.to_owned(), scope })
    }

    /// `P@platform` covers `P@platform` and `P`; `P` covers `P` alone.
    pub fn covers(&self, name: &str, scope: Scope) -> bool {
        self.name == name && self.scope >= scope
    }
}

/// The grants among the texts of a token.
pub(crate) fn grants<'de, D: Deserializer<'de>>(texts: D) -> Result<Vec<Grant>, D::Error> {
    Ok(Vec::<String>::deserialize(texts)?.iter().filter_map(|text| Grant::parse(text)).collect())
}

/// Which companies a permission reaches: a list shows what is theirs, all else is as if it were not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Platform,
    /// The token's own.
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

/// A permission is asked for by its name and by what it is for; there is no asking without.
impl Actor {
    /// For what concerns the whole platform: in organization scope it gives nothing.
    pub fn holds_on_platform(&self, permission: &str) -> bool {
        self.holds(permission, Scope::Platform)
    }

    /// For what is bound to the token's own company: in platform scope it reaches no further, and without a
    /// company it gives nothing.
    pub fn holds_for_company(&self, permission: &str) -> Option<CompanyId> {
        self.company_id.filter(|_| self.holds(permission, Scope::Organization))
    }

    /// For what is the person's own, whatever the company: the scope does not matter.
    pub fn holds_for_oneself(&self, permission: &str) -> bool {
        self.holds(permission, Scope::Organization)
    }

    /// For what belongs to companies: all of them in platform scope, else the token's own.
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

/// What a token must show before the request is looked at.
pub trait Permission: 'static {
    /// What it gives: the company, the reach, the role; `()` where it only lets in.
    type Granted;

    /// `None` to whoever does not hold it.
    fn granted(actor: &Actor) -> Option<Self::Granted>;
}

/// A person who holds `P`, and what that gives; others get 403 before the body is read.
pub struct Permitted<P: Permission> {
    pub actor: Actor,
    pub granted: P::Granted,
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

    use super::{Grant, Reach, Scope};
    use crate::{Actor, CompanyId};

    /// Whoever holds `permission`, by a token of the company or of none.
    fn holder(permission: &str, company: Option<CompanyId>) -> Actor {
        let sub = "01980000-0000-7000-8000-000000000001";
        let claims: Value = json!({
            "sub": sub, "iat": 0, "exp": 0, "company_id": company, "permissions": [permission, "other@platform"],
        });
        Actor::of(Arc::new(serde_json::from_value(claims).unwrap())).unwrap()
    }

    #[test]
    fn a_permission_is_spelled_with_its_scope_or_is_the_organizations() {
        for (text, name, scope) in [
            ("crm.deals.manage", "crm.deals.manage", Scope::Organization),
            ("crm.deals.manage@organization", "crm.deals.manage", Scope::Organization),
            ("crm.deals.manage@platform", "crm.deals.manage", Scope::Platform),
        ] {
            assert_eq!(Grant::parse(text), Some(Grant { name: name.to_owned(), scope }), "{text}");
        }
        for text in
            ["", "@platform", "@", "a@", "a@elsewhere", "a@Platform", "a@platform ", "a@platform@platform"]
        {
            assert_eq!(Grant::parse(text), None, "{text}");
        }
    }

    #[test]
    fn platform_scope_covers_the_organizations_and_never_the_reverse() {
        let (platform, organization) = (Grant::parse("p@platform").unwrap(), Grant::parse("p").unwrap());
        assert!(platform.covers("p", Scope::Platform) && platform.covers("p", Scope::Organization));
        assert!(organization.covers("p", Scope::Organization) && !organization.covers("p", Scope::Platform));
        assert!(!platform.covers("p.q", Scope::Organization) && !platform.covers("", Scope::Organization));
    }

    #[test]
    fn a_permission_reaches_as_far_as_its_scope() {
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
            let actor = holder(permission, company);
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
}
