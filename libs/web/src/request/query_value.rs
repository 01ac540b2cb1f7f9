//! Values of query members.

use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, OffsetDateTime};
use values::{Invalid, read_text, to_utc};

/// Deserializes an optional member with [`FromStr`].
pub fn read_from_str<'de, D: Deserializer<'de>, T: FromStr<Err = Invalid>>(
    text: D,
) -> Result<Option<T>, D::Error> {
    read_text(text, |text| text.parse().map(Some), || None)
}

/// Deserializes an optional time such as `2026-11-22T07:30:00Z`, and converts it to UTC.
///
/// A time whose year in UTC is before 0 or after 9999 is refused.
pub fn read_time<'de, D: Deserializer<'de>>(time: D) -> Result<Option<OffsetDateTime>, D::Error> {
    let parse = |text: &str| to_utc(OffsetDateTime::parse(text, &Rfc3339).ok()?);
    read_text(time, |text| parse(text).map(Some).ok_or_else(|| Invalid::new("invalid_type")), || None)
}

/// Deserializes an optional date such as `2026-11-22`.
pub fn read_date<'de, D: Deserializer<'de>>(date: D) -> Result<Option<Date>, D::Error> {
    let parse = |text: &str| Date::parse(text, format_description!("[year]-[month]-[day]")).ok();
    // PostgreSQL rejects dates before 4713 BC, so negative years are refused.
    let parse = |text: &str| parse(text).filter(|date| date.year() >= 0);
    read_text(date, |text| parse(text).map(Some).ok_or_else(|| Invalid::new("invalid_type")), || None)
}

/// The maximum number of items of an autocomplete: `?Limit=20`. It is 20 by default, at most 50.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(u8);

impl Limit {
    pub const MAX: u8 = 50;

    pub fn get(self) -> i64 {
        self.0.into()
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self(20)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(number: D) -> Result<Self, D::Error> {
        let out_of_range = || Invalid::new("out_of_range").with("min", 1).with("max", Self::MAX.into());
        let parse = |text: &str| {
            let number = text.parse().ok().filter(|number| (1..=Self::MAX).contains(number));
            number.map(Self).ok_or_else(out_of_range)
        };
        read_text(number, parse, Self::default)
    }
}

/// The values of a member, separated by commas: `?Statuses=Draft,Published`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommaSeparated<T>(pub Vec<T>);

impl<'de, T: FromStr> Deserialize<'de> for CommaSeparated<T> {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        let parse = |text: &str| {
            let values = text.split(',').map(str::parse).collect::<Result<_, _>>();
            values.map(Self).map_err(|_| Invalid::new("unknown_value"))
        };
        read_text(text, parse, || Self(Vec::new()))
    }
}
