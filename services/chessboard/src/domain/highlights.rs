//! A developer's highlights, which are public and must not contain personal data.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::ObjectBuilder;
use values::{Checked, Decimal, Email, Invalid, List, Rule, Text, Whole, has_international_number};

/// A number of objects.
type Count = Whole<0, 2_147_483_647>;
type AwardTitles = List<Checked<AwardTitle>, 0, 20>;

/// A title of at most 256 Unicode scalar values, without an e-mail address or a phone number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AwardTitle {}

impl Rule for AwardTitle {
    fn parse(raw: &str) -> Result<String, Invalid> {
        Text::<0, 256>::parse(raw)?;
        if has_contact(raw) { Err(Invalid::new("personal_data")) } else { Ok(raw.to_owned()) }
    }

    fn name() -> String {
        "AwardTitle".to_owned()
    }

    fn schema(text: ObjectBuilder) -> ObjectBuilder {
        text.max_length(Some(256))
    }
}

/// The highlights of a developer in contract version 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Highlights {
    pub contract_version: Whole<1, 1>,
    pub objects_delivered_count: Option<Count>,
    pub objects_in_progress_count: Option<Count>,
    /// If null, clients derive it from `FoundedYear`.
    pub years_on_market: Option<Whole<0, 200>>,
    /// At most `ReliabilityMax`.
    pub reliability_value: Option<Decimal<1, 0, 10_000>>,
    #[serde(default = "default_reliability_max")]
    #[schema(default = 10)]
    pub reliability_max: Decimal<1, 1, 10_000>,
    /// Titles without e-mail addresses and international phone numbers.
    pub award_titles: AwardTitles,
}

impl Highlights {
    /// Returns true if `ReliabilityValue` is at most `ReliabilityMax`.
    pub fn is_reliability_consistent(&self) -> bool {
        self.reliability_value.is_none_or(|value| value.units() <= self.reliability_max.units())
    }
}

/// The highlights of a new profile.
impl Default for Highlights {
    fn default() -> Self {
        Self {
            contract_version: Whole::literal::<1>(),
            objects_delivered_count: None,
            objects_in_progress_count: None,
            years_on_market: None,
            reliability_value: None,
            reliability_max: default_reliability_max(),
            award_titles: List::default(),
        }
    }
}

fn default_reliability_max() -> Decimal<1, 1, 10_000> {
    Decimal::literal::<100>()
}

/// Returns true if a text contains an e-mail address or a valid international phone number.
fn has_contact(text: &str) -> bool {
    text.match_indices('@').any(|(at, _)| is_address_at(text, at)) || has_international_number(text)
}

/// Returns true if the `@` at this position belongs to an e-mail address.
///
/// A character of a local part precedes it, and a domain follows it. The domain may end after any
/// of its labels, because more text may follow without a space.
fn is_address_at(text: &str, at: usize) -> bool {
    let is_local_char = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~\"".contains(c);
    let after = text[at + 1..].split(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '.')).next();
    let after = after.unwrap_or_default();
    let mut ends = after.match_indices('.').map(|(end, _)| end).chain([after.len()]);
    let is_domain = |end: usize| {
        let domain = after[..end].trim_end_matches('-');
        Email::<256>::parse(&format!("x@{domain}")).is_ok()
    };
    text[..at].ends_with(is_local_char) && ends.any(is_domain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{Highlights, has_contact};

    fn read(fields: &serde_json::Value) -> Result<Highlights, serde_json::Error> {
        let mut all = json!({"ContractVersion": 1, "AwardTitles": []});
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(all)
    }

    /// RULE-CHS-002: a reliability above its own maximum is rejected.
    #[test]
    fn reliability_above_its_maximum_is_inconsistent() {
        let is_consistent = |fields| read(&fields).unwrap().is_reliability_consistent();
        assert!(is_consistent(json!({"ReliabilityValue": 10})));
        assert!(!is_consistent(json!({"ReliabilityValue": 10.1})));
        assert!(!is_consistent(json!({"ReliabilityValue": 0.6, "ReliabilityMax": 0.5})));
        assert!(is_consistent(json!({"ReliabilityValue": 1000, "ReliabilityMax": 1000})));
    }

    /// RULE-CHS-002: an award title with an e-mail address or a phone number is rejected.
    #[test]
    fn award_title_with_contact_is_rejected() {
        for title in ["Best of 2020", "a@b", ""] {
            assert!(read(&json!({"AwardTitles": [title]})).is_ok(), "{title}");
        }
        for title in ["write to anna@example.org!", "+7 495 123-45-67"] {
            assert!(read(&json!({"AwardTitles": [title]})).is_err(), "{title}");
        }
    }

    /// RULE-CHS-002: an e-mail address is found anywhere in an award title.
    #[test]
    fn email_address_is_found_anywhere_in_text() {
        for text in [
            "anna@example.org",
            "Премия (anna.b+c@mail.example.co), 2020",
            "mailto:anna@example.org?subject=x",
            "<иван@пример.рф>",
            "Победитель—anna@example.org.",
            "anna@example.org...и другие",
            "anna@example.org-.2020",
        ] {
            assert!(has_contact(text), "{text}");
        }
        for text in ["", "@", "@home 2020", "Best @ Show", "№ 1 in 24/7 + more", "user@localhost", "a@b..c"]
        {
            assert!(!has_contact(text), "{text}");
        }
    }

    proptest! {
        /// RULE-CHS-002: no text causes a panic.
        #[test]
        fn any_award_title_is_checked_without_panic(text in "\\PC{0,64}|[a-z@.+0-9 ()-]{0,64}") {
            has_contact(&text);
        }
    }
}
