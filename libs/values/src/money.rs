//! Money.

use std::cmp::Ordering;
use std::fmt;
use std::io::Write;
use std::str::FromStr;

use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::expression::AsExpression;
use diesel::pg::{Pg, PgValue};
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::invalid::Invalid;
use crate::reading::read;

/// 100 percent in basis points.
const FULL_SHARE: i128 = 10_000;

/// An amount in minor units of its currency, such as kopecks or cents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Money {
    pub amount_minor: i64,
    #[schema(value_type = String, pattern = "^[A-Z]{3}$", examples("RUB"))]
    pub currency: Currency,
}

/// A share in hundredths of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct BasisPoints(pub u32);

impl Money {
    /// Adds two amounts. Returns `None` if the currencies differ or the sum overflows.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let amount_minor = self.amount_minor.checked_add(other.amount_minor)?;
        (self.currency == other.currency).then_some(Self { amount_minor, ..self })
    }

    /// Negates the amount. Returns `None` on overflow.
    #[must_use]
    pub fn checked_neg(self) -> Option<Self> {
        Some(Self { amount_minor: self.amount_minor.checked_neg()?, ..self })
    }

    /// Returns a share of the amount, rounded half to even. Returns `None` on overflow.
    #[must_use]
    pub fn share(self, BasisPoints(share): BasisPoints) -> Option<Self> {
        let product = i128::from(self.amount_minor) * i128::from(share);
        let amount_minor = i64::try_from(div_half_to_even(product, FULL_SHARE)).ok()?;
        Some(Self { amount_minor, ..self })
    }
}

/// Divides and rounds to the nearest integer, with ties to the even one. `divisor` must be
/// positive.
#[must_use]
pub fn div_half_to_even(dividend: i128, divisor: i128) -> i128 {
    let (whole, rest) = (dividend.div_euclid(divisor), dividend.rem_euclid(divisor));
    let rounds_up = match rest.cmp(&(divisor - rest)) {
        Ordering::Less => false,
        Ordering::Equal => whole % 2 != 0,
        Ordering::Greater => true,
    };
    whole + i128::from(rounds_up)
}

/// A currency code of ISO 4217.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, AsExpression, FromSqlRow)]
#[serde(into = "String")]
#[diesel(sql_type = sql_types::Text)]
pub struct Currency([u8; 3]);

impl Currency {
    pub const RUB: Self = Self(*b"RUB");
}

impl FromStr for Currency {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let code =
            <[u8; 3]>::try_from(text.as_bytes()).ok().filter(|code| code.iter().all(u8::is_ascii_uppercase));
        code.map(Self).ok_or_else(|| Invalid::new("unknown_value"))
    }
}

impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        read(String::deserialize(text)?.parse(), || Self(*b"XXX"))
    }
}

impl ToSql<sql_types::Text, Pg> for Currency {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        out.write_all(&self.0)?;
        Ok(IsNull::No)
    }
}

/// Does not check the value again: it was checked before it was stored.
impl FromSql<sql_types::Text, Pg> for Currency {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        Ok(Self(value.as_bytes().try_into()?))
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> Self {
        currency.to_string()
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{}", char::from(*byte)))
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{BasisPoints, Money};

    fn rub(amount_minor: i64) -> Money {
        Money { amount_minor, currency: "RUB".parse().unwrap() }
    }

    proptest! {
        /// RULE-ALL-007: a share is rounded once, half to even. The error is at most half a minor
        /// unit.
        #[test]
        fn share_is_the_nearest_integer_amount(amount: i64, share in 0_u32..=10_000) {
            let exact = i128::from(amount) * i128::from(share);
            let rounded = i128::from(rub(amount).share(BasisPoints(share)).unwrap().amount_minor);
            let error = (rounded * 10_000 - exact).abs();
            prop_assert!(error < 5_000 || error == 5_000 && rounded % 2 == 0, "{exact} became {rounded}");
        }
    }

    /// RULE-ALL-007: ties round to the even amount.
    #[test]
    fn ties_round_to_the_even_amount() {
        let half = |amount| rub(amount).share(BasisPoints(5_000)).unwrap().amount_minor;
        assert_eq!([1, 3, 5, -1, -3, -5].map(half), [0, 2, 2, 0, -2, -2]);
    }

    /// RULE-ALL-007: sums have one currency and stay in bounds.
    #[test]
    fn sum_of_two_currencies_or_out_of_bounds_is_none() {
        assert_eq!(rub(2).checked_add(rub(-5)), Some(rub(-3)));
        assert_eq!(rub(i64::MAX).checked_add(rub(1)), None);
        assert_eq!(rub(3).checked_neg(), Some(rub(-3)));
        assert_eq!(rub(i64::MIN).checked_neg(), None);
        assert_eq!(rub(i64::MAX).share(BasisPoints(20_000)), None);
        assert_eq!(rub(1).checked_add(Money { currency: "USD".parse().unwrap(), ..rub(1) }), None);
    }

    /// RULE-ALL-007: money is minor units and a currency code.
    #[test]
    fn money_is_minor_units_and_a_currency_code() {
        let json = r#"{"AmountMinor":1250000000,"Currency":"RUB"}"#;
        let money: Money = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&money).unwrap(), json);
        assert_eq!(format!("{money:?}"), "Money { amount_minor: 1250000000, currency: RUB }");
        for wrong in [r#"{"AmountMinor":1.5,"Currency":"RUB"}"#, r#"{"AmountMinor":1,"Currency":"rub"}"#] {
            assert!(serde_json::from_str::<Money>(wrong).is_err(), "{wrong}");
        }
    }
}
