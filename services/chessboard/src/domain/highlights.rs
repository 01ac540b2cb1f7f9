//! A developer's highlights, which are public and must not contain personal data.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use values::{Decimal, Invalid, List, PhoneRegion, Text, Whole, check_public};

/// A number of objects.
type Count = Whole<0, 2_147_483_647>;
type AwardTitles = List<Text<0, 256>, 0, 20>;

/// The highlights of a developer in contract version 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Highlights {
    /// Version of the highlights format.
    pub contract_version: Whole<1, 1>,
    /// Number of completed objects.
    pub objects_delivered_count: Option<Count>,
    /// Number of objects under construction.
    pub objects_in_progress_count: Option<Count>,
    /// Number of years on the market. If null, clients compute the number from `FoundedYear`.
    pub years_on_market: Option<Whole<0, 200>>,
    /// At most `ReliabilityMax`.
    pub reliability_value: Option<Decimal<1, 0, 10_000>>,
    /// The highest possible `ReliabilityValue`. The default is 10.
    #[serde(default = "default_reliability_max")]
    pub reliability_max: Decimal<1, 1, 10_000>,
    /// Titles without personal data and secrets.
    pub award_titles: AwardTitles,
}

impl Highlights {
    /// Returns an error for each member that contradicts another one or must not be public.
    ///
    /// `region` is the region of national phone numbers. The types do not contain this check: a
    /// later version of the phone library may recognize more numbers, and stored highlights must
    /// stay readable.
    pub fn contradictions(&self, region: PhoneRegion) -> Vec<(String, Invalid)> {
        let reliability = self.reliability_value.filter(|value| value.units() > self.reliability_max.units());
        let reliability = reliability.map(|_| ("ReliabilityValue".to_owned(), Invalid::new("out_of_bounds")));
        let titles = self.award_titles.as_slice().iter().enumerate();
        let titles = titles.filter_map(|(at, title)| {
            let invalid = check_public(title.as_str(), region).err()?;
            Some((format!("AwardTitles/{at}"), invalid))
        });
        reliability.into_iter().chain(titles).collect()
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use values::PhoneRegion;

    use super::Highlights;

    /// Returns the contradictions as texts.
    fn contradictions(fields: &serde_json::Value) -> Vec<String> {
        let mut all = json!({"ContractVersion": 1, "AwardTitles": []});
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let highlights: Highlights = serde_json::from_value(all).unwrap();
        let all = highlights.contradictions(PhoneRegion::RU).into_iter();
        all.map(|(member, invalid)| format!("{member} {invalid}")).collect()
    }

    /// RULE-CHS-002: a reliability above its own maximum is rejected.
    #[test]
    fn reliability_above_its_maximum_is_inconsistent() {
        let out_of_bounds = ["ReliabilityValue out_of_bounds"];
        assert!(contradictions(&json!({"ReliabilityValue": 10})).is_empty());
        assert_eq!(contradictions(&json!({"ReliabilityValue": 10.1})), out_of_bounds);
        assert_eq!(contradictions(&json!({"ReliabilityValue": 0.6, "ReliabilityMax": 0.5})), out_of_bounds);
        assert!(contradictions(&json!({"ReliabilityValue": 1000, "ReliabilityMax": 1000})).is_empty());
    }

    /// RULE-CHS-056: each award title with personal data or a secret is reported by its position.
    #[test]
    fn confidential_award_title_is_reported_by_position() {
        let titles = ["Best of 2020", "8 (495) 123-45-67", "a@b", "password=qwerty12", "anna@example.org"];
        assert_eq!(
            contradictions(&json!({"AwardTitles": titles})),
            ["AwardTitles/1 personal_data", "AwardTitles/3 secret", "AwardTitles/4 personal_data"]
        );
    }
}
