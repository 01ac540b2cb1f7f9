//! The permissions of a token.

use std::fmt;

use serde::{Deserialize, Deserializer};

/// The scope of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The company that the token names.
    Organization,
    /// Every company.
    Platform,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Organization => "organization",
            Self::Platform => "platform",
        })
    }
}

/// A permission with its scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub name: String,
    pub scope: Scope,
}

impl Grant {
    /// Parses the spelling of tokens: `crm.deals.manage@platform`, or `crm.deals.manage` with or
    /// without `@organization`.
    ///
    /// Returns `None` for a text without a name or with another scope, since it grants nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, scope) = match text.split_once('@') {
            None => (text, Scope::Organization),
            Some((name, "organization")) => (name, Scope::Organization),
            Some((name, "platform")) => (name, Scope::Platform),
            Some(_) => return None,
        };
        (!name.is_empty()).then(|| Self { name: name.to_owned(), scope })
    }

    /// Returns true if this grant includes the permission `name` in `scope`. The platform scope
    /// includes the organization scope.
    pub fn covers(&self, name: &str, scope: Scope) -> bool {
        self.name == name && self.scope >= scope
    }
}

/// Deserializes the grants of a token. Skips texts that do not parse.
pub(crate) fn grants<'de, D: Deserializer<'de>>(texts: D) -> Result<Vec<Grant>, D::Error> {
    Ok(Vec::<String>::deserialize(texts)?.iter().filter_map(|text| Grant::parse(text)).collect())
}

#[cfg(test)]
mod tests {
    use super::{Grant, Scope};

    /// RULE-ALL-050: a permission without a scope has organization scope.
    #[test]
    fn grant_without_a_scope_has_organization_scope() {
        for (text, name, scope) in [
            ("crm.deals.manage", "crm.deals.manage", Scope::Organization),
            ("crm.deals.manage@organization", "crm.deals.manage", Scope::Organization),
            ("crm.deals.manage@platform", "crm.deals.manage", Scope::Platform),
        ] {
            assert_eq!(Grant::parse(text), Some(Grant { name: name.to_owned(), scope }), "{text}");
        }
        assert_eq!(
            [Scope::Organization, Scope::Platform].map(|scope| scope.to_string()),
            ["organization", "platform"]
        );
        for text in
            ["", "@platform", "@", "a@", "a@elsewhere", "a@Platform", "a@platform ", "a@platform@platform"]
        {
            assert_eq!(Grant::parse(text), None, "{text}");
        }
    }

    /// RULE-ALL-050: the platform scope covers the organization scope, but not the reverse.
    #[test]
    fn platform_scope_covers_organization_scope_but_not_the_reverse() {
        let (platform, organization) = (Grant::parse("p@platform").unwrap(), Grant::parse("p").unwrap());
        assert!(platform.covers("p", Scope::Platform) && platform.covers("p", Scope::Organization));
        assert!(organization.covers("p", Scope::Organization) && !organization.covers("p", Scope::Platform));
        assert!(!platform.covers("p.q", Scope::Organization) && !platform.covers("", Scope::Organization));
    }
}
