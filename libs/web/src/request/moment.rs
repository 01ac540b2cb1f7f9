//! Moments in requests.

use serde::{Deserialize, Deserializer};
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};
use values::{Invalid, read_text};

/// A moment as somebody sends it: RFC 3339, in UTC and cut to what is kept of it, which is microseconds.
/// In documents: `#[schema(value_type = String, format = DateTime)]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub OffsetDateTime);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        let parse = |text: &str| {
            let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?.checked_to_offset(UtcOffset::UTC)?;
            moment.replace_microsecond(moment.microsecond()).ok().map(Self)
        };
        let parse = |text: &str| parse(text).ok_or_else(|| Invalid::new("invalid_type"));
        read_text(text, parse, || Self(OffsetDateTime::UNIX_EPOCH))
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::Moment;

    #[test]
    fn a_moment_is_in_utc_and_has_no_more_than_microseconds() {
        let read = |time: &str| serde_json::from_str::<Moment>(&format!("{time:?}")).map(|moment| moment.0);
        let read_well = read("2026-11-22T15:00:00.1234567+03:00").unwrap();
        assert_eq!(read_well, datetime!(2026-11-22 12:00:00.123456 UTC));
        assert!(read("9999-12-31T23:59:59-00:01").is_err() && read("2026-11-22").is_err());
    }
}
