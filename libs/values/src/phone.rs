//! Phone numbers.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::expression::AsExpression;
use diesel::pg::{Pg, PgValue};
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types;
use regex::Regex;
use rlibphonenumber::phonenumber_matcher::{FindNumberExt, Leniency};
use rlibphonenumber::{PHONE_NUMBER_UTIL, PhoneNumber, Region};
use serde::Serialize;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use crate::checked::{Checked, Rule};
use crate::invalid::Invalid;
use crate::pattern::pattern;
use crate::text::Text;
use crate::visible::is_invisible;

/// A phone number, in E.164: `+74951234567`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, AsExpression, FromSqlRow)]
#[serde(transparent)]
#[diesel(sql_type = sql_types::Text)]
pub struct Phone(String);

/// Maximum length of a number in E.164: the plus sign and 15 digits.
const MAX_E164_BYTES: usize = 16;

/// The region that a number without a country code belongs to, as an ISO 3166 code such as `RU`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhoneRegion(Region);

/// A phone number as a user dials it, of at most `MAX` Unicode scalar values. Its meaning depends
/// on the region.
pub type Dialled<const MAX: usize> = Checked<DialledNumber<MAX>>;

/// The rule for dialled numbers, as [`clean`] returns them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DialledNumber<const MAX: usize> {}

impl PhoneRegion {
    pub const RU: Self = Self(Region::RU);
}

impl Phone {
    /// Returns the number in E.164.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the number that a user in `region` reaches by `dialled`.
    ///
    /// # Errors
    /// `bad_phone` if there is no such number.
    pub fn from_dialled<const MAX: usize>(
        dialled: &Dialled<MAX>,
        region: PhoneRegion,
    ) -> Result<Self, Invalid> {
        Self::parse(Some(region.0), dialled.as_str()).ok_or_else(|| Invalid::new("bad_phone"))
    }

    /// Parses a [clean](clean) number. An extension is dropped, since E.164 has none.
    ///
    /// Returns `None` if the number is not valid. libphonenumber accepts German numbers with more
    /// digits than E.164.
    fn parse(region: Option<Region>, number: &str) -> Option<Self> {
        let number = PhoneNumber::parse(number, region).ok().filter(PhoneNumber::is_valid)?.to_string();
        (number.len() <= MAX_E164_BYTES).then_some(Self(number))
    }
}

impl<const MAX: usize> Rule for DialledNumber<MAX> {
    fn parse(raw: &str) -> Result<String, Invalid> {
        Text::<1, MAX>::parse(raw)?;
        let dialled = clean(raw);
        // Only a number with a country code is complete without the region.
        let is_number = if dialled.contains(['+', '\u{ff0b}']) {
            Phone::parse(None, &dialled).is_some()
        } else {
            dialled.contains(char::is_numeric)
        };
        if is_number { Ok(dialled) } else { Err(Invalid::new("bad_phone")) }
    }

    fn name() -> String {
        format!("Phone_{MAX}")
    }

    fn schema(text: ObjectBuilder) -> ObjectBuilder {
        text.min_length(Some(1)).max_length(Some(MAX)).examples(["+7 495 123-45-67", "8 (495) 123-45-67"])
    }
}

/// Returns a number without invisible characters and with simple spaces only, as libphonenumber
/// expects it.
///
/// Address books write direction marks around numbers. Keycap emoji consist of a digit and the
/// frame U+20E3.
fn clean(raw: &str) -> String {
    let visible = raw.chars().filter(|c| !is_invisible(*c) && *c != '\u{20e3}');
    let spaced: String = visible.map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    spaced.trim().to_owned()
}

/// A year as a separate word.
static YEAR: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(?:19|20)\d\d\b"));

/// Returns true if a text contains a valid phone number of the region or with a country code.
///
/// libphonenumber reads `+ 2012-2013-2014` as a number of Egypt, and does not find a number beside
/// a year. This function therefore ignores lists of years, and also searches the text without
/// years.
pub fn has_phone_number(text: &str, region: PhoneRegion) -> bool {
    let has_number = |text: &str| {
        let finder = text.phone_number_matcher_builder().leniency(Leniency::Valid);
        finder
            .preferred_region(region.0)
            .build()
            .any(|found| YEAR.replace_all(found.raw_string, "").contains(|c: char| c.is_numeric()))
    };
    has_number(text) || has_number(&YEAR.replace_all(text, ";"))
}

impl FromStr for PhoneRegion {
    type Err = UnknownRegion;

    fn from_str(text: &str) -> Result<Self, UnknownRegion> {
        let is_code = text.bytes().all(|byte| byte.is_ascii_uppercase());
        let region = text.parse::<Region>().ok().filter(|_| is_code);
        region
            .filter(|region| PHONE_NUMBER_UTIL.get_country_code_for_region(*region).is_some())
            .map(Self)
            .ok_or(UnknownRegion)
    }
}

impl fmt::Display for PhoneRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The error for a text that is not a region.
#[derive(Debug)]
pub struct UnknownRegion;

impl fmt::Display for UnknownRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a region code such as RU")
    }
}

impl ToSql<sql_types::Text, Pg> for Phone {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        ToSql::<sql_types::Text, Pg>::to_sql(self.0.as_str(), out)
    }
}

/// Does not check the value again: it was checked before it was stored.
impl FromSql<sql_types::Text, Pg> for Phone {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        FromSql::<sql_types::Text, Pg>::from_sql(value).map(Self)
    }
}

impl utoipa::PartialSchema for Phone {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String);
        text.pattern(Some("^\\+[1-9][0-9]{1,14}$")).examples(["+74951234567"]).into()
    }
}

impl utoipa::ToSchema for Phone {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Dialled, Phone, PhoneNumber, PhoneRegion};

    fn number(region: &str, text: &str) -> Option<String> {
        let region: PhoneRegion = region.parse().unwrap();
        Phone::from_dialled(&Dialled::<32>::parse(text).ok()?, region).ok().map(|phone| phone.0)
    }

    /// RULE-ALL-009: phone numbers are E.164.
    #[test]
    fn number_is_stored_in_e164() {
        let moscow = Some("+74951234567".to_owned());
        for text in [
            "+74951234567",
            "+7 (495) 123-45-67",
            "8 (495) 123-45-67",
            "84951234567",
            "495.123.45.67",
            "(+7) 495 123\u{2013}45\u{a0}67",
            "+7\u{2009}495 123\u{2212}45\u{ad}6\u{200b}7",
            "\u{202d}+7 495 123-45-67\u{202c}",
            "\u{200e}8 495 123-45-67\n",
            "\u{2068}+7\u{2069} 495\t123\u{3000}45\u{feff}67",
            "+7 [495] 123-45-67",
            "\u{ff0b}７ ４９５ １２３－４５－６７",
            "+٧٤٩٥١٢٣٤٥٦٧",
            "tel:+7-495-123-45-67",
            "TEL: +7 495 123-45-67",
            "4951234567;phone-context=+7",
            "tel:+74951234567;ext=12",
            "+7 495 123-45-67 доб. 123",
            "8 (495) 123-45-67 ext. 5",
            "8 (495) 123-45-67 x5",
            "8\u{fe0f}\u{20e3}4951234567",
        ] {
            assert_eq!(number("RU", text), moscow, "{text}");
        }
        // A leading 8 may belong to the number instead of being the national prefix.
        for (text, e164) in [
            ("8 (812) 312-34-56", "+78123123456"),
            ("+7 812 312-34-56", "+78123123456"),
            ("812 312-34-56", "+78123123456"),
            ("8 800 555-35-35", "+78005553535"),
            ("8-800-FLOWERS", "+78003569377"),
        ] {
            assert_eq!(number("RU", text).as_deref(), Some(e164), "{text}");
        }
        assert_eq!(number("US", "(202) 555-0123"), Some("+12025550123".to_owned()));
        assert_eq!(number("US", "+7 495 123-45-67"), moscow);
    }

    /// RULE-ALL-009: an invalid phone number is rejected.
    #[test]
    fn invalid_number_is_rejected() {
        for text in [
            "",
            "+",
            "-",
            "12",
            "+7",
            "+7 495 123-45-6",
            "+999 123 456 789",
            "+7 495 123-45-67,+7",
            "1-800-FLOWERS",
            "call me",
            "tel:",
            "+7+4951234567",
            "0611",
            "8 (495) 123-45-67, Анна",
            "12345678901234567890123456789012",
            "+7 495 123-45-67                 ",
        ] {
            assert_eq!(number("RU", text), None, "{text}");
        }
        assert!("XX".parse::<PhoneRegion>().is_err() && "ru".parse::<PhoneRegion>().is_err());
    }

    /// Numbers as they are dialled in their region, and in E.164.
    const DIALLED: [(&str, &str, &str); 14] = [
        ("RU", "84951234567", "+74951234567"),
        ("RU", "4951234567", "+74951234567"),
        ("RU", "74951234567", "+74951234567"),
        ("RU", "88005553535", "+78005553535"),
        ("RU", "89161234567", "+79161234567"),
        ("RU", "81012025550123", "+12025550123"),
        ("KZ", "87771234567", "+77771234567"),
        ("UA", "0441234567", "+380441234567"),
        ("US", "2025550123", "+12025550123"),
        ("US", "12025550123", "+12025550123"),
        ("GB", "02079460018", "+442079460018"),
        ("DE", "030901820", "+4930901820"),
        ("FR", "0123456789", "+33123456789"),
        ("IT", "0612345678", "+390612345678"),
    ];

    /// Inserts separators into `digits`, each before a position.
    fn separated(digits: &str, separators: &[(usize, char)]) -> String {
        let mut written = String::new();
        for (at, digit) in digits.char_indices() {
            written.extend(separators.iter().filter(|(position, _)| *position == at).map(|(_, c)| *c));
            written.push(digit);
        }
        written
    }

    fn separator() -> impl Strategy<Value = char> {
        prop::sample::select(
            " -()[]./\t\u{a0}\u{2009}\u{2013}\u{2212}\u{200b}\u{200e}\u{202d}\u{2068}\u{3000}\u{feff}"
                .chars()
                .collect::<Vec<_>>(),
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// RULE-ALL-009: a national number belongs to the region. A number with a country code is
        /// the same in all regions.
        #[test]
        fn number_has_the_country_that_was_dialled(
            (region, national, e164) in prop::sample::select(&DIALLED[..]),
            (elsewhere, _, _) in prop::sample::select(&DIALLED[..]),
            separators in prop::collection::vec((0..16_usize, separator()), 0..10),
        ) {
            let e164 = Some(e164.to_owned());
            prop_assert_eq!(&number(region, &separated(national, &separators)), &e164);
            prop_assert_eq!(&number(elsewhere, &separated(e164.as_deref().unwrap(), &separators)), &e164);
        }

        /// RULE-ALL-009: any text is a number or is rejected. The number has the digits and the
        /// country of the text.
        #[test]
        fn any_text_is_a_number_or_rejected(
            text in "\\PC{0,32}|[+0-9 ()./-]{0,32}|(\\+7|8|7|\\+1|810)? ?\\(?[2-9][0-9]{2}\\)? ?[0-9]{3}-?[0-9]{2}-?[0-9]{2}",
        ) {
            if let Some(number) = number("RU", &text) {
                let digits = number.strip_prefix('+').unwrap();
                prop_assert!(digits.len() <= 15 && digits.bytes().all(|digit| digit.is_ascii_digit()));
                prop_assert_eq!(&Phone::parse(None, &number).unwrap().0, &number);

                let dialled: String = text.chars().filter(char::is_ascii_digit).collect();
                let national = PhoneNumber::parse(&number, None).unwrap().get_national_significant_number();
                let country = digits.strip_suffix(&national).unwrap();
                if text.contains('+') {
                    prop_assert!(dialled.starts_with(country), "{text} is {number}");
                } else {
                    prop_assert!(country == "7" || dialled.starts_with("810"), "{text} is {number}");
                }
                if country == "7" {
                    prop_assert!(dialled.ends_with(&national), "{text} is {number}");
                }
            }
        }
    }

    /// RULE-ALL-009: E.164 has at most 15 digits. libphonenumber accepts more in Germany.
    #[test]
    fn number_with_more_digits_than_e164_is_rejected() {
        assert_eq!(number("RU", "+4981012025550123"), None);
        assert_eq!(number("DE", "81012025550123"), None);
        assert_eq!(number("DE", "8101202555012").as_deref(), Some("+498101202555012"));
    }

    /// The text of a region is its code, and the error for another text names an example.
    #[test]
    fn region_is_printed_as_its_code() {
        assert_eq!("RU".parse::<PhoneRegion>().unwrap().to_string(), "RU");
        let error = "Russia".parse::<PhoneRegion>().unwrap_err();
        assert_eq!(error.to_string(), "not a region code such as RU");
    }
}
