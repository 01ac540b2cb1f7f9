//! Texts that keep a rule.

use std::borrow::Cow;
use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;

use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::expression::AsExpression;
use diesel::pg::{Pg, PgValue};
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use crate::{Invalid, Text, read_text};

/// What a text must be.
pub trait Rule: Clone + Debug + Eq + Hash + 'static {
    /// The text as it is kept.
    ///
    /// # Errors
    /// What is wrong with it.
    fn parse(raw: &str) -> Result<String, Invalid>;

    /// What documents call a text that keeps it.
    fn name() -> String;

    /// What a document can say of the rule.
    fn schema(text: ObjectBuilder) -> ObjectBuilder;
}

/// A text that keeps the rule `R`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, AsExpression, FromSqlRow)]
#[serde(transparent)]
#[diesel(sql_type = sql_types::Text)]
pub struct Checked<R: Rule>(String, #[serde(skip)] PhantomData<R>);

/// Without the white space around it, of one line: no control character is in it.
pub type Line<const MIN: usize, const MAX: usize> = Checked<Trimmed<MIN, MAX, false>>;

/// Without the white space around it; line breaks and tabs may be in it, and no other control character.
pub type Lines<const MIN: usize, const MAX: usize> = Checked<Trimmed<MIN, MAX, true>>;

/// Without the white space around it; any character but NUL may be in it.
pub type Prose<const MIN: usize, const MAX: usize> = Checked<Stripped<MIN, MAX>>;

impl<R: Rule> Checked<R> {
    /// # Errors
    /// Those of the rule.
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

/// What the database holds was checked on its way in; it is not checked again.
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

/// `MIN..=MAX` Unicode scalar values when the white space around them is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Trimmed<const MIN: usize, const MAX: usize, const LINES: bool> {}

impl<const MIN: usize, const MAX: usize, const LINES: bool> Rule for Trimmed<MIN, MAX, LINES> {
    fn parse(raw: &str) -> Result<String, Invalid> {
        let text = raw.trim();
        Text::<MIN, MAX>::parse(text)?;
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

/// The same, whatever the characters are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stripped<const MIN: usize, const MAX: usize> {}

impl<const MIN: usize, const MAX: usize> Rule for Stripped<MIN, MAX> {
    fn parse(raw: &str) -> Result<String, Invalid> {
        let text = raw.trim();
        Text::<MIN, MAX>::parse(text)?;
        Ok(text.to_owned())
    }

    fn name() -> String {
        format!("Prose_{MIN}_{MAX}")
    }

    fn schema(text: ObjectBuilder) -> ObjectBuilder {
        text.min_length((MIN > 0).then_some(MIN)).max_length(Some(MAX))
    }
}

/// An address as it is written, of `MAX` Unicode scalar values at most. White space around it is left out if it is `TRIMMED`, and refused
/// otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EmailAddress<const MAX: usize, const TRIMMED: bool> {}

/// An e-mail address, kept as it was sent.
pub type Email<const MAX: usize> = Checked<EmailAddress<MAX, false>>;

/// An e-mail address, without the white space around it.
pub type TrimmedEmail<const MAX: usize> = Checked<EmailAddress<MAX, true>>;

impl<const MAX: usize, const TRIMMED: bool> Rule for EmailAddress<MAX, TRIMMED> {
    fn parse(raw: &str) -> Result<String, Invalid> {
        let address = Line::<1, MAX>::parse(raw)?.0;
        if !TRIMMED && address != raw {
            return Err(Invalid::new("bad_email"));
        }
        // `name@host` reaches nobody outside; `Name <address>` and `name@[address]` are no contact.
        let form = email_address::Options::default()
            .with_required_tld()
            .without_display_text()
            .without_domain_literal();
        match email_address::EmailAddress::parse_with_options(&address, form) {
            Ok(_) => Ok(address),
            Err(_) => Err(Invalid::new("bad_email")),
        }
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
    use super::{Email, Line, Lines, Prose, TrimmedEmail};

    #[test]
    fn white_space_around_a_line_is_left_out_before_it_is_counted() {
        assert_eq!(Line::<1, 3>::parse(" \u{a0}ёжи\t\n").unwrap().as_str(), "ёжи");
        assert_eq!(Line::<1, 3>::parse(" \n ").unwrap_err().code, "too_short");
        assert_eq!(Line::<1, 3>::parse("four").unwrap_err().code, "too_long");
    }

    #[test]
    fn a_control_character_is_refused_and_line_breaks_are_for_lines() {
        for text in ["a\0b", "a\nb", "a\u{7f}b", "a\u{85}b", "a\u{9f}b", "\u{1}"] {
            assert_eq!(Line::<1, 9>::parse(text).unwrap_err().code, "forbidden_character", "{text:?}");
        }
        assert_eq!(Lines::<1, 9>::parse("a\r\n\tb ").unwrap().as_str(), "a\r\n\tb");
        for text in ["a\0b", "a\u{b}b", "a\u{1b}b"] {
            assert_eq!(Lines::<1, 9>::parse(text).unwrap_err().code, "forbidden_character", "{text:?}");
        }
    }

    #[test]
    fn prose_is_trimmed_before_it_is_counted_and_may_hold_anything_but_nul() {
        assert_eq!(Prose::<1, 4>::parse(" \u{2003}ё\u{1b}\u{85}и\n").unwrap().as_str(), "ё\u{1b}\u{85}и");
        assert_eq!(Prose::<1, 4>::parse(" \u{a0}\n ").unwrap_err().code, "too_short");
        assert_eq!(Prose::<0, 4>::parse(" ").unwrap().as_str(), "");
        assert_eq!(Prose::<1, 4>::parse("five5").unwrap_err().code, "too_long");
        assert_eq!(Prose::<1, 4>::parse("a\0b").unwrap_err().code, "forbidden_character");
    }

    #[test]
    fn an_email_address_is_parsed_and_kept_as_written() {
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
