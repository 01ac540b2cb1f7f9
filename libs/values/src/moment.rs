//! Times in bodies and events, at the database's precision.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};

use crate::invalid::Invalid;
use crate::reading::read_text;

/// A time in RFC 3339, converted to UTC and truncated to the database's microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub OffsetDateTime);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        let parse = |text: &str| {
            let moment = to_utc(OffsetDateTime::parse(text, &Rfc3339).ok()?)?;
            moment.replace_microsecond(moment.microsecond()).ok().map(Self)
        };
        let parse = |text: &str| parse(text).ok_or_else(|| Invalid::new("invalid_type"));
        read_text(text, parse, || Self(OffsetDateTime::UNIX_EPOCH))
    }
}

impl utoipa::PartialSchema for Moment {
    fn schema() -> RefOr<Schema> {
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).into()
    }
}

/// The name has an underscore, so the API documents inline the schema.
impl utoipa::ToSchema for Moment {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Moment_utc")
    }
}

/// Converts a time to UTC. Returns `None` for a year before 0 or after 9999, because a response
/// could not contain the time.
pub fn to_utc(time: OffsetDateTime) -> Option<OffsetDateTime> {
    time.checked_to_offset(UtcOffset::UTC).filter(|utc| utc.year() >= 0)
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::Moment;

    /// RULE-ALL-004: another offset is converted to UTC.
    #[test]
    fn moment_is_converted_to_utc_microseconds() {
        let read = |time: &str| serde_json::from_str::<Moment>(&format!("{time:?}")).map(|moment| moment.0);
        let moment = read("2026-11-22T15:00:00.1234567+03:00").unwrap();
        assert_eq!(moment, datetime!(2026-11-22 12:00:00.123456 UTC));
        assert!(read("2026-11-22").is_err());
    }

    /// RULE-ALL-004: a time that no response could contain is refused. A stored one would fail
    /// every later response with it.
    #[test]
    fn moment_that_no_response_could_contain_is_refused() {
        let read = |time: &str| serde_json::from_str::<Moment>(&format!("{time:?}"));
        assert!(read("0000-01-01T00:00:00Z").is_ok() && read("9999-12-31T23:59:59.999999999Z").is_ok());
        for invalid in ["0000-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"] {
            assert!(read(invalid).is_err(), "{invalid}");
        }
    }
}
