//! Bounded numbers.

use std::borrow::Cow;
use std::str::FromStr;

use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::expression::AsExpression;
use diesel::pg::{Pg, PgValue};
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::{BigInt, Integer, SmallInt};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};

use crate::invalid::Invalid;
use crate::reading::{Number, read_number};

/// 2⁶³, the smallest number above all 64-bit integers.
const I64_UPPER_BOUND: f64 = 9_223_372_036_854_775_808.0;

/// An integer in `MIN..=MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, AsExpression, FromSqlRow)]
#[serde(transparent)]
#[diesel(sql_type = SmallInt)]
#[diesel(sql_type = Integer)]
#[diesel(sql_type = BigInt)]
pub struct Whole<const MIN: i64, const MAX: i64>(i64);

impl<const MIN: i64, const MAX: i64> Whole<MIN, MAX> {
    /// # Errors
    /// `out_of_range` with `min` and `max`.
    pub fn parse(number: i64) -> Result<Self, Invalid> {
        if (MIN..=MAX).contains(&number) {
            return Ok(Self(number));
        }
        Err(Self::out_of_range())
    }

    fn out_of_range() -> Invalid {
        Invalid { code: "out_of_range", args: vec![("min", MIN), ("max", MAX)] }
    }

    /// Returns the constant `NUMBER`. A number out of bounds is a compile error.
    pub const fn literal<const NUMBER: i64>() -> Self {
        const { assert!(MIN <= NUMBER && NUMBER <= MAX) }
        Self(NUMBER)
    }

    pub fn get(self) -> i64 {
        self.0
    }
}

impl<'de, const MIN: i64, const MAX: i64> Deserialize<'de> for Whole<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(number: D) -> Result<Self, D::Error> {
        let parse = |number| match number {
            Number::Whole(number) => Self::parse(number),
            // Such a number does not fit into 64 bits, so it is out of every range.
            Number::Fraction(number) if number.abs() >= I64_UPPER_BOUND => Err(Self::out_of_range()),
            Number::Fraction(_) => Err(Invalid::new("invalid_type")),
        };
        read_number(number, parse, || Self(MIN))
    }
}

/// Parses a query parameter.
impl<const MIN: i64, const MAX: i64> FromStr for Whole<MIN, MAX> {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        text.parse().map_err(|_| Invalid::new("invalid_type")).and_then(Self::parse)
    }
}

impl<const MIN: i64, const MAX: i64> ToSql<SmallInt, Pg> for Whole<MIN, MAX> {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        ToSql::<SmallInt, Pg>::to_sql(&i16::try_from(self.0)?, &mut out.reborrow())
    }
}

impl<const MIN: i64, const MAX: i64> ToSql<Integer, Pg> for Whole<MIN, MAX> {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        ToSql::<Integer, Pg>::to_sql(&i32::try_from(self.0)?, &mut out.reborrow())
    }
}

impl<const MIN: i64, const MAX: i64> ToSql<BigInt, Pg> for Whole<MIN, MAX> {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        ToSql::<BigInt, Pg>::to_sql(&self.0, out)
    }
}

/// Does not check the value again: it was checked before it was stored.
impl<const MIN: i64, const MAX: i64> FromSql<SmallInt, Pg> for Whole<MIN, MAX> {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        <i16 as FromSql<SmallInt, Pg>>::from_sql(value).map(|number| Self(number.into()))
    }
}

impl<const MIN: i64, const MAX: i64> FromSql<Integer, Pg> for Whole<MIN, MAX> {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        <i32 as FromSql<Integer, Pg>>::from_sql(value).map(|number| Self(number.into()))
    }
}

impl<const MIN: i64, const MAX: i64> FromSql<BigInt, Pg> for Whole<MIN, MAX> {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        <i64 as FromSql<BigInt, Pg>>::from_sql(value).map(Self)
    }
}

impl<const MIN: i64, const MAX: i64> utoipa::PartialSchema for Whole<MIN, MAX> {
    fn schema() -> RefOr<Schema> {
        let is_short = i32::try_from(MIN).is_ok() && i32::try_from(MAX).is_ok();
        let format = if is_short { KnownFormat::Int32 } else { KnownFormat::Int64 };
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(format)))
            .minimum(Some(MIN))
            .maximum(Some(MAX))
            .into()
    }
}

impl<const MIN: i64, const MAX: i64> utoipa::ToSchema for Whole<MIN, MAX> {
    fn name() -> Cow<'static, str> {
        Cow::Owned(format!("Whole_{MIN}_{MAX}"))
    }
}

/// A number with at most `PLACES` decimal places, which is never rounded.
///
/// `MIN` and `MAX` are in units of the last place, so `Decimal<2, 1, 10_000>` is 0.01 to 100. JSON
/// has the number, and the database has the units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, AsExpression, FromSqlRow)]
#[diesel(sql_type = Integer)]
pub struct Decimal<const PLACES: u32, const MIN: i32, const MAX: i32>(i32);

impl<const PLACES: u32, const MIN: i32, const MAX: i32> Decimal<PLACES, MIN, MAX> {
    /// Units of the last place in the number 1.
    const UNITS_PER_ONE: i32 = 10_i32.pow(PLACES);

    /// Creates a number from units of the last place.
    ///
    /// # Errors
    /// `out_of_bounds`.
    pub fn from_units(units: i64) -> Result<Self, Invalid> {
        let within = i32::try_from(units).ok().filter(|units| (MIN..=MAX).contains(units));
        within.map(Self).ok_or_else(|| Invalid::new("out_of_bounds"))
    }

    /// Returns the constant number of `UNITS` units of the last place. A number out of bounds is a
    /// compile error.
    pub const fn literal<const UNITS: i32>() -> Self {
        const { assert!(MIN <= UNITS && UNITS <= MAX) }
        Self(UNITS)
    }

    /// Returns the number in units of the last place.
    pub fn units(self) -> i32 {
        self.0
    }

    /// # Errors
    /// `out_of_bounds`, or `too_precise` for further decimal places.
    pub fn parse(number: f64) -> Result<Self, Invalid> {
        let units = (number * f64::from(Self::UNITS_PER_ONE)).round();
        if !(f64::from(MIN)..=f64::from(MAX)).contains(&units) {
            return Err(Invalid::new("out_of_bounds"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the value is an integer within the bounds of i32"
        )]
        let rounded = Self(units as i32);
        // Each decimal has one nearest float, so the floats are equal only if the text has no
        // further decimal places.
        #[expect(clippy::float_cmp, reason = "equal decimals have the same nearest float")]
        let is_exact = rounded.as_f64() == number;
        if is_exact { Ok(rounded) } else { Err(Invalid::new("too_precise")) }
    }

    fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::UNITS_PER_ONE)
    }
}

impl<'de, const PLACES: u32, const MIN: i32, const MAX: i32> Deserialize<'de> for Decimal<PLACES, MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(number: D) -> Result<Self, D::Error> {
        let parse = |number| match number {
            Number::Whole(number) => Self::from_units(number.saturating_mul(Self::UNITS_PER_ONE.into())),
            Number::Fraction(number) => Self::parse(number),
        };
        read_number(number, parse, || Self(MIN))
    }
}

/// Parses a query parameter.
impl<const PLACES: u32, const MIN: i32, const MAX: i32> FromStr for Decimal<PLACES, MIN, MAX> {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        text.parse().map_err(|_| Invalid::new("invalid_type")).and_then(Self::parse)
    }
}

impl<const PLACES: u32, const MIN: i32, const MAX: i32> Serialize for Decimal<PLACES, MIN, MAX> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.0 % Self::UNITS_PER_ONE == 0 {
            to.serialize_i32(self.0 / Self::UNITS_PER_ONE)
        } else {
            to.serialize_f64(self.as_f64())
        }
    }
}

impl<const PLACES: u32, const MIN: i32, const MAX: i32> ToSql<Integer, Pg> for Decimal<PLACES, MIN, MAX> {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        ToSql::<Integer, Pg>::to_sql(&self.0, out)
    }
}

/// Does not check the value again: it was checked before it was stored.
impl<const PLACES: u32, const MIN: i32, const MAX: i32> FromSql<Integer, Pg> for Decimal<PLACES, MIN, MAX> {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        <i32 as FromSql<Integer, Pg>>::from_sql(value).map(Self)
    }
}

impl<const PLACES: u32, const MIN: i32, const MAX: i32> utoipa::PartialSchema for Decimal<PLACES, MIN, MAX> {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Number)
            .minimum(Some(Self(MIN).as_f64()))
            .maximum(Some(Self(MAX).as_f64()))
            .into()
    }
}

impl<const PLACES: u32, const MIN: i32, const MAX: i32> utoipa::ToSchema for Decimal<PLACES, MIN, MAX> {
    fn name() -> Cow<'static, str> {
        Cow::Owned(format!("Decimal_{PLACES}_{MIN}_{MAX}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Decimal, Whole};

    type Area = Decimal<2, 1, 100_000_000>;

    fn error<T: serde::de::DeserializeOwned>(json: &str) -> String {
        serde_json::from_str::<T>(json).map(drop).unwrap_err().to_string()
    }

    /// RULE-ALL-008: an integer out of bounds is rejected.
    #[test]
    fn integer_out_of_bounds_is_rejected() {
        for number in [-10, 0, 200] {
            let text = number.to_string();
            assert_eq!(serde_json::from_str::<Whole<{ -10 }, 200>>(&text).unwrap().get(), number);
            assert_eq!(text.parse::<Whole<{ -10 }, 200>>().unwrap().get(), number);
        }
        for number in ["-11", "201", "9223372036854775808", "-9223372036854775808"] {
            assert!(error::<Whole<{ -10 }, 200>>(number).starts_with("out_of_range"), "{number}");
        }
        for number in ["1.0", "1.5", "\"1\"", "true", "null", "[1]", "{}"] {
            assert!(error::<Whole<{ -10 }, 200>>(number).starts_with("invalid_type"), "{number}");
        }
    }

    proptest! {
        /// RULE-ALL-008: decimals with and without trailing zeros are equal.
        #[test]
        fn decimal_survives_a_round_trip(units in 1_i64..=100_000_000, zeros in 0_usize..4) {
            let area = Area::from_units(units).unwrap();
            prop_assert_eq!(i64::from(area.units()), units);
            let json = serde_json::to_string(&area).unwrap();
            prop_assert_eq!(serde_json::from_str::<Area>(&json).unwrap(), area);
            let written = format!("{}.{:02}{}", units / 100, units % 100, "0".repeat(zeros));
            prop_assert_eq!(serde_json::from_str::<Area>(&written).unwrap(), area);
            prop_assert_eq!(json.parse::<f64>(), written.parse::<f64>());
        }

        /// RULE-ALL-008: decimals with further places are rejected, never rounded.
        #[test]
        fn decimal_with_a_further_place_is_rejected(units in 1_i64..100_000_000, zeros in 0_usize..4, last in 1..10) {
            let finer = format!("{}.{:02}{}{last}", units / 100, units % 100, "0".repeat(zeros));
            prop_assert!(error::<Area>(&finer).starts_with("too_precise"), "{}", finer);
        }
    }

    /// RULE-ALL-008: decimals are never rounded.
    #[test]
    fn decimal_is_never_rounded() {
        for (json, code) in [
            ("9.555", "too_precise"),
            // Without `float_roundtrip`, serde_json reads this as 54.3.
            ("54.300000000000004", "too_precise"),
            ("0.011", "too_precise"),
            ("0.001", "out_of_bounds"),
            ("0", "out_of_bounds"),
            ("-0.01", "out_of_bounds"),
            ("1000000.01", "out_of_bounds"),
            ("9223372036854775807", "out_of_bounds"),
            ("1e300", "out_of_bounds"),
            ("\"1\"", "invalid_type"),
            ("null", "invalid_type"),
        ] {
            assert!(error::<Area>(json).starts_with(code), "{json}");
        }
        for (json, written) in
            [("10", "10"), ("10.0", "10"), ("1e1", "10"), ("9.50", "9.5"), ("0.07", "0.07")]
        {
            assert_eq!(serde_json::to_string(&serde_json::from_str::<Area>(json).unwrap()).unwrap(), written);
        }
    }
}
