//! What a developer boasts of. No secrets and no personal data are in it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use values::{Decimal, Email, Invalid, List, Text, Whole, has_international_number};

/// As many as a profile counts.
type Count = Whole<0, 2_147_483_647>;
type AwardTitles = List<Text<0, 256>, 0, 20>;

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
    /// What is wrong with members that have to go together, or that tell of a person: where, and why.
    pub fn faults(&self) -> Vec<(String, Invalid)> {
        let value = self.reliability_value.filter(|value| value.units() > self.reliability_max.units());
        let value = value.map(|_| ("/ReliabilityValue".to_owned(), Invalid::new("out_of_bounds")));
        let titles = self.award_titles.as_slice().iter().enumerate();
        let personal = titles.filter(|(_, title)| is_personal(title.as_str()));
        let personal = personal.map(|(at, _)| (format!("/AwardTitles/{at}"), Invalid::new("personal_data")));
        value.into_iter().chain(personal).collect()
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

/// Whether the `@` that is `at` this place is an e-mail address's: something stands before it, and a domain after it.
fn is_address_at(text: &str, at: usize) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~\"".contains(c);
    let domain = text[at + 1..].split(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '.')).next();
    let domain = domain.unwrap_or_default().trim_end_matches(['-', '.']);
    text[..at].ends_with(is_of_name) && Email::<256>::parse(&format!("x@{domain}")).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{Highlights, is_personal};

    fn faults(members: &serde_json::Value) -> Vec<String> {
        let mut all = json!({"ContractVersion": 1, "AwardTitles": []});
        all.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let highlights: Highlights = serde_json::from_value(all).unwrap();
        highlights.faults().into_iter().map(|(field, invalid)| format!("{field} {}", invalid.code)).collect()
    }

    #[test]
    fn reliability_is_measured_by_its_own_maximum() {
        assert_eq!(faults(&json!({"ReliabilityValue": 10})), [""; 0]);
        assert_eq!(faults(&json!({"ReliabilityValue": 10.1})), ["/ReliabilityValue out_of_bounds"]);
        assert_eq!(
            faults(&json!({"ReliabilityValue": 0.6, "ReliabilityMax": 0.5})),
            ["/ReliabilityValue out_of_bounds"]
        );
        assert_eq!(faults(&json!({"ReliabilityValue": 1000, "ReliabilityMax": 1000})), [""; 0]);
    }

    #[test]
    fn an_award_tells_of_no_person() {
        let titles = ["Best of 2020", "a@b", "write to anna@example.org!", "+7 495 123-45-67"];
        assert_eq!(
            faults(&json!({"AwardTitles": titles})),
            ["/AwardTitles/2 personal_data", "/AwardTitles/3 personal_data"]
        );
    }

    #[test]
    fn addresses_are_found_wherever_they_stand() {
        for text in [
            "anna@example.org",
            "Премия (anna.b+c@mail.example.co), 2020",
            "mailto:anna@example.org?subject=x",
            "<иван@пример.рф>",
            "Победитель—anna@example.org.",
        ] {
            assert!(is_personal(text), "{text}");
        }
        for text in ["", "@", "@home 2020", "Best @ Show", "№ 1 in 24/7 + more", "user@localhost"] {
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
