//! Texts that conform to a rule.

use std::borrow::Cow;
use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;

use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::expression::AsExpression;
use diesel::pg::{Pg, PgValue};
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types;
use icu_normalizer::ComposingNormalizerBorrowed;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use crate::email::is_email_address;
use crate::invalid::Invalid;
use crate::reading::read_text;
use crate::text::{Text, check_length};
use crate::visible::is_blank;

/// A rule for texts.
pub trait Rule: Clone + Debug + Eq + Hash + 'static {
    /// Checks a text and returns its stored form.
    fn parse(raw: &str) -> Result<String, Invalid>;

    /// Returns the name of the schema in documents.
    fn name() -> String;

    /// Adds the rule to a schema, as far as JSON Schema can express it.
    fn schema(text: ObjectBuilder) -> ObjectBuilder;
}

/// A text that conforms to the rule `R`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, AsExpression, FromSqlRow)]
#[serde(transparent)]
#[diesel(sql_type = sql_types::Text)]
pub struct Checked<R: Rule>(String, #[serde(skip)] PhantomData<R>);

/// A trimmed text of one line, without control characters.
pub type Line<const MIN: usize, const MAX: usize> = Checked<Trimmed<MIN, MAX, false>>;

/// A trimmed text with line breaks and tabs, but no other control characters.
pub type Lines<const MIN: usize, const MAX: usize> = Checked<Trimmed<MIN, MAX, true>>;

/// A trimmed text with any characters except NUL.
pub type Prose<const MIN: usize, const MAX: usize> = Checked<TrimmedProse<MIN, MAX>>;

/// A text with any characters except NUL, which may be blank.
pub type Verbatim<const MIN: usize, const MAX: usize> = Checked<Unchanged<MIN, MAX>>;

impl<R: Rule> Checked<R> {
    pub fn parse(raw: &str) -> Result<Self, Invalid> {
        R::parse(raw).map(|text| Self(text, PhantomData))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de, R: Rule> Deserialize<'de> for Checked<R> {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        read_text(text, Self::parse, || Self(String::new(), PhantomData))
    }
}

impl<R: Rule> ToSql<sql_types::Text, Pg> for Checked<R> {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        ToSql::<sql_types::Text, Pg>::to_sql(self.0.as_str(), out)
    }
}

/// Does not check the value again: it was checked before it was stored.
impl<R: Rule> FromSql<sql_types::Text, Pg> for Checked<R> {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        FromSql::<sql_types::Text, Pg>::from_sql(value).map(|text| Self(text, PhantomData))
    }
}

impl<R: Rule> utoipa::PartialSchema for Checked<R> {
    fn schema() -> RefOr<Schema> {
        R::schema(ObjectBuilder::new().schema_type(Type::String)).into()
    }
}

impl<R: Rule> utoipa::ToSchema for Checked<R> {
    fn name() -> Cow<'static, str> {
        Cow::Owned(R::name())
    }
}

/// Removes white space at both ends. Returns an empty text for a [blank](is_blank) one.
fn trim(raw: &str) -> &str {
    if is_blank(raw) { "" } else { raw.trim() }
}

/// The rule for `MIN..=MAX` Unicode scalar values after trimming, without control characters.
/// `LINES` permits line breaks and tabs. A blank text is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Trimmed<const MIN: usize, const MAX: usize, const LINES: bool> {}

impl<const MIN: usize, const MAX: usize, const LINES: bool> Rule for Trimmed<MIN, MAX, LINES> {
    fn parse(raw: &str) -> Result<String, Invalid> {
        let text = trim(raw);
        check_length(text, MIN, MAX)?;
        let is_allowed = |c: char| !c.is_control() || LINES && matches!(c, '\n' | '\r' | '\t');
        if text.chars().all(is_allowed) {
            Ok(text.to_owned())
        } else {
            Err(Invalid::new("forbidden_character"))
        }
    }

    fn name() -> String {
        format!("{}_{MIN}_{MAX}", if LINES { "Lines" } else { "Line" })
    }

    fn schema(text: ObjectBuilder) -> ObjectBuilder {
        text.min_length((MIN > 0).then_some(MIN)).max_length(Some(MAX))
    }
}

/// The rule for `MIN..=MAX` Unicode scalar values after trimming, with any characters except NUL. A
/// blank text is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TrimmedProse<const MIN: usize, const MAX: usize> {}

impl<const MIN: usize, const MAX: usize> Rule for TrimmedProse<MIN, MAX> {
    fn parse(raw: &str) -> Result<String, Invalid> {
        let text = trim(raw);
        check_length(text, MIN, MAX)?;
        Ok(text.to_owned())
    }

    fn name() -> String {
        format!("Prose_{MIN}_{MAX}")
    }

    fn schema(text: ObjectBuilder) -> ObjectBuilder {
        text.min_length((MIN > 0).then_some(MIN)).max_length(Some(MAX))
    }
}

/// The rule for `MIN..=MAX` Unicode scalar values as sent, with any characters except NUL.
///
/// Use it for messages of other systems, and where another rule decides whether a text is empty.
/// [`Text`] rejects a blank text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Unchanged<const MIN: usize, const MAX: usize> {}

impl<const MIN: usize, const MAX: usize> Rule for Unchanged<MIN, MAX> {
    fn parse(raw: &str) -> Result<String, Invalid> {
        check_length(raw, MIN, MAX)?;
        Ok(raw.to_owned())
    }

    fn name() -> String {
        <Text<MIN, MAX> as utoipa::ToSchema>::name().into_owned()
    }

    fn schema(text: ObjectBuilder) -> ObjectBuilder {
        text.min_length((MIN > 0).then_some(MIN)).max_length(Some(MAX))
    }
}

/// The rule for e-mail addresses of at most `MAX` Unicode scalar values in normalization form C.
/// Surrounding white space is removed if `TRIMMED` is true, and rejected otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EmailAddress<const MAX: usize, const TRIMMED: bool> {}

/// An e-mail address, stored as sent but in normalization form C.
pub type Email<const MAX: usize> = Checked<EmailAddress<MAX, false>>;

/// An e-mail address, stored without surrounding white space and in normalization form C.
pub type TrimmedEmail<const MAX: usize> = Checked<EmailAddress<MAX, true>>;

impl<const MAX: usize, const TRIMMED: bool> Rule for EmailAddress<MAX, TRIMMED> {
    fn parse(raw: &str) -> Result<String, Invalid> {
        let normalized = ComposingNormalizerBorrowed::new_nfc().normalize(raw);
        let address = Line::<1, MAX>::parse(&normalized)?.0;
        let is_address = (TRIMMED || address == normalized) && is_email_address(&address);
        if is_address { Ok(address) } else { Err(Invalid::new("bad_email")) }
    }

    fn name() -> String {
        format!("Email_{MAX}")
    }

    fn schema(text: ObjectBuilder) -> ObjectBuilder {
        text.format(Some(utoipa::openapi::SchemaFormat::KnownFormat(utoipa::openapi::KnownFormat::IdnEmail)))
            .min_length(Some(1))
            .max_length(Some(MAX))
            .examples(["anna@example.org"])
    }
}

#[cfg(test)]
mod tests {
    use super::{Email, Line, Lines, Prose, TrimmedEmail, Verbatim};

    /// RULE-ALL-006: a text of white space and invisible characters is empty.
    #[test]
    fn blank_text_is_empty_after_trimming() {
        for blank in ["\u{200b}", " \u{feff} ", "\u{2060}\u{ad}", "\u{2800}"] {
            assert_eq!(Line::<1, 9>::parse(blank).unwrap_err().code, "too_short", "{blank:?}");
            assert_eq!(Lines::<0, 9>::parse(blank).unwrap().as_str(), "");
            assert_eq!(Prose::<1, 9>::parse(blank).unwrap_err().code, "too_short", "{blank:?}");
            assert_eq!(Prose::<0, 9>::parse(blank).unwrap().as_str(), "");
            assert_eq!(Verbatim::<1, 9>::parse(blank).unwrap().as_str(), blank);
        }
        assert_eq!(Prose::<1, 9>::parse(" \u{200b}x ").unwrap().as_str(), "\u{200b}x");
        assert_eq!(Verbatim::<1, 1>::parse("").unwrap_err().code, "too_short");
    }

    #[test]
    fn line_is_trimmed_before_its_length_is_checked() {
        assert_eq!(Line::<1, 3>::parse(" \u{a0}ёжи\t\n").unwrap().as_str(), "ёжи");
        assert_eq!(Line::<1, 3>::parse(" \n ").unwrap_err().code, "too_short");
        assert_eq!(Line::<1, 3>::parse("four").unwrap_err().code, "too_long");
    }

    /// RULE-ALL-006: `Line` rejects control characters. `Lines` permits line breaks and tabs only.
    #[test]
    fn control_character_is_rejected_except_line_breaks_in_lines() {
        for text in ["a\0b", "a\nb", "a\u{7f}b", "a\u{85}b", "a\u{9f}b", "\u{1}"] {
            assert_eq!(Line::<1, 9>::parse(text).unwrap_err().code, "forbidden_character", "{text:?}");
        }
        assert_eq!(Lines::<1, 9>::parse("a\r\n\tb ").unwrap().as_str(), "a\r\n\tb");
        for text in ["a\0b", "a\u{b}b", "a\u{1b}b"] {
            assert_eq!(Lines::<1, 9>::parse(text).unwrap_err().code, "forbidden_character", "{text:?}");
        }
    }

    #[test]
    fn prose_is_trimmed_and_permits_all_characters_except_nul() {
        assert_eq!(Prose::<1, 4>::parse(" \u{2003}ё\u{1b}\u{85}и\n").unwrap().as_str(), "ё\u{1b}\u{85}и");
        assert_eq!(Prose::<1, 4>::parse(" \u{a0}\n ").unwrap_err().code, "too_short");
        assert_eq!(Prose::<0, 4>::parse(" ").unwrap().as_str(), "");
        assert_eq!(Prose::<1, 4>::parse("five5").unwrap_err().code, "too_long");
        assert_eq!(Prose::<1, 4>::parse("a\0b").unwrap_err().code, "forbidden_character");
    }

    /// RULE-ALL-009: e-mail addresses are parsed and stored as written.
    #[test]
    fn email_address_is_checked_and_stored_as_written() {
        for address in ["Anna@Example.org", "a.b+c@mail.example.co", "иван@пример.рф", " a@b.cd "]
        {
            assert_eq!(TrimmedEmail::<256>::parse(address).unwrap().as_str(), address.trim());
            assert_eq!(Email::<256>::parse(address).is_ok(), address == address.trim());
        }
        for address in [
            "",
            "anna",
            "anna@",
            "@b.cd",
            "a b@c.de",
            "a@b",
            "a@b..cd",
            "Anna <a@b.cd>",
            "a@[1.2.3.4]",
            "a@b@c.de",
        ] {
            assert!(Email::<256>::parse(address).is_err(), "{address}");
        }
    }
}
