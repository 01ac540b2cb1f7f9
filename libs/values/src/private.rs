//! Values that logs must not show.

use std::fmt;
use std::marker::PhantomData;

use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::pg::{Pg, PgValue};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;

/// Personal data. It has no `Display`, and `Debug` prints a placeholder, so that no log, span or
/// error shows it. On the wire and in the database it is the plain value.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, FromSqlRow)]
#[serde(transparent)]
pub struct Private<T>(T);

impl<T> Private<T> {
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value. Show it only to users who may see it.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Private<T> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        // A newtype keeps serde's own error for a missing member. That error names the member and
        // quotes no value.
        value.deserialize_newtype_struct("Private", PrivateVisitor(PhantomData))
    }
}

struct PrivateVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for PrivateVisitor<T> {
    type Value = Private<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a private value")
    }

    /// Replaces the error of the value, which may quote it.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<Private<T>, D::Error> {
        T::deserialize(value).map(Private).map_err(|_| D::Error::custom("not valid"))
    }
}

impl<T: FromSql<ST, Pg>, ST> FromSql<ST, Pg> for Private<T> {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        T::from_sql(value).map(Self)
    }
}

impl<T> fmt::Debug for Private<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(private)")
    }
}

impl<T: utoipa::PartialSchema> utoipa::PartialSchema for Private<T> {
    fn schema() -> RefOr<Schema> {
        T::schema()
    }
}

impl<T: utoipa::ToSchema> utoipa::ToSchema for Private<T> {
    fn name() -> std::borrow::Cow<'static, str> {
        T::name()
    }
}

#[cfg(test)]
mod tests {
    use super::Private;
    use crate::text::Text;

    /// RULE-ALL-038: a private value is sent and never printed.
    #[test]
    fn private_value_is_serialized_but_not_printed() {
        #[derive(Debug)]
        #[expect(dead_code, reason = "read by Debug only")]
        struct Note {
            text: Private<Text<1, 20>>,
        }
        #[derive(Debug, serde::Deserialize)]
        #[expect(dead_code, reason = "only deserialized")]
        struct Request {
            text: Private<Text<1, 20>>,
        }
        let text: Private<Text<1, 20>> = serde_json::from_str("\"Ivan's account\"").unwrap();
        assert_eq!(serde_json::to_string(&text).unwrap(), "\"Ivan's account\"");
        let wrong = serde_json::from_str::<Private<u64>>("\"Ivan's account\"").unwrap_err();
        assert!(!wrong.to_string().contains("Ivan"), "{wrong}");
        let missing = serde_json::from_str::<Request>("{}").unwrap_err();
        assert!(missing.to_string().starts_with("missing field `text`"), "{missing}");
        assert_eq!(text.expose().as_str(), "Ivan's account");
        assert_eq!(format!("{:?}", Some(Note { text })), "Some(Note { text: (private) })");
    }
}
