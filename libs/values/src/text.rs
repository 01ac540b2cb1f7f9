//! Bounded text.

use std::borrow::Cow;

use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::expression::AsExpression;
use diesel::pg::{Pg, PgValue};
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use crate::invalid::Invalid;
use crate::reading::read_text;
use crate::visible::is_blank;

/// A text of `MIN..=MAX` Unicode scalar values, stored as sent: not trimmed and not normalized.
///
/// A [blank](is_blank) text counts as empty. NUL is rejected, since PostgreSQL cannot store it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, AsExpression, FromSqlRow)]
#[serde(transparent)]
#[diesel(sql_type = sql_types::Text)]
pub struct Text<const MIN: usize, const MAX: usize>(String);

impl<const MIN: usize, const MAX: usize> Text<MIN, MAX> {
    /// The maximum number of characters.
    pub const MAX: usize = MAX;

    /// # Errors
    /// The errors of [`check_length`], and `too_short` for a blank text if `MIN` is above 0.
    pub fn parse(raw: impl Into<String>) -> Result<Self, Invalid> {
        let raw = raw.into();
        check_length(&raw, MIN, MAX)?;
        if MIN > 0 && is_blank(&raw) {
            return Err(Invalid::new("too_short").with("min", MIN));
        }
        Ok(Self(raw))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Checks the number of characters, and that NUL is not among them.
///
/// # Errors
/// `too_short` with `min`, `too_long` with `max`, or `forbidden_character` for a NUL.
pub(crate) fn check_length(text: &str, min: usize, max: usize) -> Result<(), Invalid> {
    let length = text.chars().count();
    if length < min {
        return Err(Invalid::new("too_short").with("min", min));
    }
    if length > max {
        return Err(Invalid::new("too_long").with("max", max));
    }
    if text.contains('\0') { Err(Invalid::new("forbidden_character")) } else { Ok(()) }
}

impl<'de, const MIN: usize, const MAX: usize> Deserialize<'de> for Text<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        read_text(text, |text| Self::parse(text), || Self(String::new()))
    }
}

impl<const MIN: usize, const MAX: usize> ToSql<sql_types::Text, Pg> for Text<MIN, MAX> {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        ToSql::<sql_types::Text, Pg>::to_sql(self.0.as_str(), out)
    }
}

/// Does not check the value again: it was checked before it was stored.
impl<const MIN: usize, const MAX: usize> FromSql<sql_types::Text, Pg> for Text<MIN, MAX> {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        FromSql::<sql_types::Text, Pg>::from_sql(value).map(Self)
    }
}

impl<const MIN: usize, const MAX: usize> utoipa::PartialSchema for Text<MIN, MAX> {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length((MIN > 0).then_some(MIN))
            .max_length(Some(MAX))
            .into()
    }
}

impl<const MIN: usize, const MAX: usize> utoipa::ToSchema for Text<MIN, MAX> {
    fn name() -> Cow<'static, str> {
        Cow::Owned(format!("Text_{MIN}_{MAX}"))
    }
}

#[cfg(test)]
mod tests {
    use super::Text;

    /// RULE-ALL-006: texts are counted in Unicode scalar values.
    #[test]
    fn length_is_the_number_of_unicode_scalar_values() {
        assert!(Text::<1, 3>::parse("ёжи").is_ok());
        assert!(Text::<1, 3>::parse("🏠🏠🏠").is_ok());
        assert_eq!(Text::<1, 3>::parse("🏠🏠🏠🏠").unwrap_err().code, "too_long");
        assert_eq!(Text::<1, 3>::parse("").unwrap_err().code, "too_short");
    }

    /// RULE-ALL-006: a text of white space and invisible characters is empty, and other texts are
    /// not trimmed.
    #[test]
    fn blank_text_is_too_short() {
        for blank in [" ", "\u{200b}", "\u{feff}", " \u{a0}\n", "\u{2060}\u{ad}"] {
            assert_eq!(Text::<1, 3>::parse(blank).unwrap_err().code, "too_short", "{blank:?}");
            assert_eq!(Text::<0, 3>::parse(blank).unwrap().as_str(), blank);
        }
        assert_eq!(Text::<1, 3>::parse(" x\u{200b}").unwrap().as_str(), " x\u{200b}");
    }

    /// RULE-ALL-006: texts have no NUL.
    #[test]
    fn nul_is_rejected_since_the_database_cannot_store_it() {
        assert_eq!(Text::<0, 9>::parse("a\0b").unwrap_err().code, "forbidden_character");
    }
}
