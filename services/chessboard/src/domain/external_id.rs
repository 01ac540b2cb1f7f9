//! External ids: the ids of projects, buildings and objects in another system of their company.

use icu_normalizer::ComposingNormalizerBorrowed;
use serde::{Deserialize, Deserializer};
use utoipa::openapi::schema::ObjectBuilder;
use values::{Checked, Invalid, Rule, Text};

/// The id of a project, a building or an object in another system of its company.
///
/// The id is unique in the company for each of the three kinds, and is compared exactly.
pub type ExternalId = Checked<ExternalIdRule>;

/// The rule for external ids: 1 to 128 letters, digits and `-`, `_`, `.`, `:`, in normalization
/// form C, with at least one letter or digit.
///
/// An external id is a segment of a path. Other characters, and a segment of dots, would change
/// their meaning in a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ExternalIdRule {}

impl Rule for ExternalIdRule {
    fn parse(raw: &str) -> Result<String, Invalid> {
        let id = ComposingNormalizerBorrowed::new_nfc().normalize(raw);
        Text::<1, 128>::parse(&*id)?;
        let is_allowed = |c: char| c.is_alphanumeric() || "-_.:".contains(c);
        if id.chars().all(is_allowed) && id.chars().any(char::is_alphanumeric) {
            Ok(id.into_owned())
        } else {
            Err(Invalid::new("forbidden_character"))
        }
    }

    fn name() -> String {
        "ExternalId".to_owned()
    }

    fn schema(text: ObjectBuilder) -> ObjectBuilder {
        text.min_length(Some(1)).max_length(Some(128)).examples(["00-000123"])
    }
}

/// The external id in a request that creates or changes an entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExternalIdEdit {
    /// The entity keeps its external id. A new entity has none.
    #[default]
    Keep,
    Set(Option<ExternalId>),
}

impl ExternalIdEdit {
    /// Returns the external id after the change.
    pub fn apply(self, current: Option<ExternalId>) -> Option<ExternalId> {
        match self {
            Self::Keep => current,
            Self::Set(id) => id,
        }
    }
}

/// Reads a member that is present. For an absent member use the default.
impl<'de> Deserialize<'de> for ExternalIdEdit {
    fn deserialize<D: Deserializer<'de>>(member: D) -> Result<Self, D::Error> {
        Option::deserialize(member).map(Self::Set)
    }
}

/// The fields of a project or a building in a request.
#[derive(Clone, Debug)]
pub struct Edited<F> {
    pub facts: F,
    pub external_id: ExternalIdEdit,
}

impl<F> Edited<F> {
    /// Creates the fields of an entity whose external id is in the path of the request.
    pub fn with_external_id(external_id: ExternalId, facts: F) -> Self {
        Self { facts, external_id: ExternalIdEdit::Set(Some(external_id)) }
    }
}

#[cfg(test)]
mod tests {
    use super::{ExternalId, ExternalIdEdit};

    /// RULE-CHS-061: an external id has letters, digits and four other characters, and at least one
    /// letter or digit.
    #[test]
    fn external_id_has_letters_digits_and_four_other_characters() {
        for id in ["1", "ЦБ-000123", "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66", "a.b_C"] {
            assert_eq!(ExternalId::parse(id).unwrap().as_str(), id);
        }
        for id in
            ["a/b", "a b", " a", "a\n", "a\\b", "a?b", "a#b", "a%2Fb", "a\u{200b}", "a\0", "..", ".", "-_.:"]
        {
            assert_eq!(ExternalId::parse(id).unwrap_err().code, "forbidden_character", "{id:?}");
        }
        for blank in ["", " ", "\u{200b}"] {
            assert_eq!(ExternalId::parse(blank).unwrap_err().code, "too_short", "{blank:?}");
        }
    }

    /// RULE-CHS-061: the limit counts composed characters. Two encodings of a letter are one id,
    /// but its two cases are two ids.
    #[test]
    fn external_id_is_composed_before_it_is_counted() {
        assert_eq!(ExternalId::parse("и\u{306}").unwrap(), ExternalId::parse("й").unwrap());
        assert!(ExternalId::parse(&"и\u{306}".repeat(128)).is_ok());
        assert_eq!(ExternalId::parse(&"й".repeat(129)).unwrap_err().code, "too_long");
        assert_ne!(ExternalId::parse("a").unwrap(), ExternalId::parse("A").unwrap());
    }

    /// RULE-CHS-062: an absent member keeps the external id, and null removes it.
    #[test]
    fn absent_external_id_is_kept_and_null_removes_it() {
        let (old, new) = (ExternalId::parse("old").unwrap(), ExternalId::parse("new").unwrap());
        let set = |json: &str| serde_json::from_str::<ExternalIdEdit>(json).unwrap();
        assert_eq!(ExternalIdEdit::default().apply(Some(old.clone())), Some(old.clone()));
        assert_eq!(set("\"new\"").apply(Some(old.clone())), Some(new));
        assert_eq!(set("null").apply(Some(old)), None);
    }
}
