//! What a developer boasts of. No secrets and no personal data are in it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::ObjectBuilder;
use values::{Checked, Decimal, Email, Invalid, List, Rule, Text, Whole, has_international_number};

/// As many as a profile counts.
type Count = Whole<0, 2_147_483_647>;
type AwardTitles = List<Checked<AwardTitle>, 0, 20>;

/// At most 256 Unicode scalar values, by which no person can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AwardTitle {}

impl Rule for AwardTitle {
    fn parse(raw: &str) -> Result<String, Invalid> {
        Text::<0, 256>::parse(raw)?;
        if is_personal(raw) { Err(Invalid::new("personal_data")) } else { Ok(raw.to_owned()) }
    }

    fn name() -> String {
        "AwardTitle".to_owned()
    }

    fn schema(text: ObjectBuilder) -> ObjectBuilder {
        text.max_length(Some(256))
    }
}

/// The highlights of a developer, contract version 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Highlights {
    pub contract_version: Whole<1, 1>,
    pub objects_delivered_count: Option<Count>,
    pub objects_in_progress_count: Option<Count>,
    /// Null: clients derive it from the year of foundation.
    pub years_on_market: Option<Whole<0, 200>>,
    /// Of `ReliabilityMax` at most.
    pub reliability_value: Option<Decimal<1, 0, 10_000>>,
    #[serde(default = "ten")]
    #[schema(default = 10)]
    pub reliability_max: Decimal<1, 1, 10_000>,
    /// None has an e-mail address or an international phone number in it.
    pub award_titles: AwardTitles,
}

impl Highlights {
    /// Whether its value is within its own maximum.
    pub fn is_reliable(&self) -> bool {
        self.reliability_value.is_none_or(|value| value.units() <= self.reliability_max.units())
    }
}

/// As a profile has them at first.
impl Default for Highlights {
    fn default() -> Self {
        Self {
            contract_version: Whole::known::<1>(),
            objects_delivered_count: None,
            objects_in_progress_count: None,
            years_on_market: None,
            reliability_value: None,
            reliability_max: ten(),
            award_titles: List::default(),
        }
    }
}

fn ten() -> Decimal<1, 1, 10_000> {
    Decimal::known::<100>()
}

/// Whether a person can be reached by what stands in a text.
fn is_personal(text: &str) -> bool {
    text.match_indices('@').any(|(at, _)| is_address_at(text, at)) || has_international_number(text)
}

/// Whether the `@` that is `at` this place is an e-mail address's: something stands before it, and a domain after it,
/// which may end with any of its labels, whatever comes behind that.
fn is_address_at(text: &str, at: usize) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~\"".contains(c);
    let after = text[at + 1..].split(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '.')).next();
    let after = after.unwrap_or_default();
    let mut ends = after.match_indices('.').map(|(end, _)| end).chain([after.len()]);
    let is_domain = |end: usize| {
        let domain = after[..end].trim_end_matches('-');
        Email::<256>::parse(&format!("x@{domain}")).is_ok()
    };
    text[..at].ends_with(is_of_name) && ends.any(is_domain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{Highlights, is_personal};

    fn read(members: &serde_json::Value) -> Result<Highlights, serde_json::Error> {
        let mut all = json!({"ContractVersion": 1, "AwardTitles": []});
        all.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        serde_json::from_value(all)
    }

    #[test]
    fn reliability_is_measured_by_its_own_maximum() {
        let is_reliable = |members| read(&members).unwrap().is_reliable();
        assert!(is_reliable(json!({"ReliabilityValue": 10})));
        assert!(!is_reliable(json!({"ReliabilityValue": 10.1})));
        assert!(!is_reliable(json!({"ReliabilityValue": 0.6, "ReliabilityMax": 0.5})));
        assert!(is_reliable(json!({"ReliabilityValue": 1000, "ReliabilityMax": 1000})));
    }

    #[test]
    fn an_award_tells_of_no_person() {
        for title in ["Best of 2020", "a@b", ""] {
            assert!(read(&json!({"AwardTitles": [title]})).is_ok(), "{title}");
        }
        for title in ["write to anna@example.org!", "+7 495 123-45-67"] {
            assert!(read(&json!({"AwardTitles": [title]})).is_err(), "{title}");
        }
    }

    #[test]
    fn addresses_are_found_wherever_they_stand() {
        for text in [
            "anna@example.org",
            "Премия (anna.b+c@mail.example.co), 2020",
            "mailto:anna@example.org?subject=x",
            "<иван@пример.рф>",
            "Победитель—anna@example.org.",
            "anna@example.org...и другие",
            "anna@example.org-.2020",
        ] {
            assert!(is_personal(text), "{text}");
        }
        for text in ["", "@", "@home 2020", "Best @ Show", "№ 1 in 24/7 + more", "user@localhost", "a@b..c"]
        {
            assert!(!is_personal(text), "{text}");
        }
    }

    proptest! {
        /// Nothing that a client sends panics.
        #[test]
        fn any_text_may_be_a_title(text in "\\PC{0,64}|[a-z@.+0-9 ()-]{0,64}") {
            is_personal(&text);
        }
    }
}
