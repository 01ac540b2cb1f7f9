//! A serde module for times that the database stores: `#[serde(with = "::web::utc")]`.
//!
//! The format is RFC 3339. Another offset can move a time out of the years that RFC 3339 can write,
//! so such a time is refused.

use serde::de::Error;
use serde::{Deserializer, Serializer};
use time::OffsetDateTime;
use time::serde::rfc3339;
use values::to_utc;

/// Writes a time in RFC 3339.
pub fn serialize<S: Serializer>(time: &OffsetDateTime, to: S) -> Result<S::Ok, S::Error> {
    rfc3339::serialize(time, to)
}

/// Reads a time in RFC 3339 and converts it to UTC.
pub fn deserialize<'de, D: Deserializer<'de>>(time: D) -> Result<OffsetDateTime, D::Error> {
    to_utc(rfc3339::deserialize(time)?).ok_or_else(|| D::Error::custom("invalid_type"))
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};
    use time::OffsetDateTime;
    use time::macros::datetime;

    #[derive(Serialize, Deserialize)]
    struct Key(#[serde(with = "super")] OffsetDateTime);

    #[test]
    fn time_that_rfc_3339_cannot_write_in_utc_is_refused() {
        let read = |time: &str| serde_json::from_str::<Key>(&format!("{time:?}")).map(|key| key.0);
        let noon = datetime!(2026-11-22 12:00 UTC);
        assert_eq!(read("2026-11-22T15:00:00+03:00").unwrap(), noon);
        assert_eq!(serde_json::to_string(&Key(noon)).unwrap(), "\"2026-11-22T12:00:00Z\"");
        assert!(read("9999-12-31T23:59:59Z").is_ok() && read("0000-01-01T00:00:00Z").is_ok());
        for invalid in ["9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01", "2026-11-22"] {
            assert!(read(invalid).is_err(), "{invalid}");
        }
    }
}
