//! Money.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Invalid;

/// An amount in the minor units of its currency: kopecks, cents. Never a float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Money {
    pub amount_minor: i64,
    #[schema(value_type = String, pattern = "^[A-Z]{3}$", examples("RUB"))]
    pub currency: Currency,
}

/// An ISO 4217 code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Currency([u8; 3]);

impl FromStr for Currency {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let code =
            <[u8; 3]>::try_from(text.as_bytes()).ok().filter(|code| code.iter().all(u8::is_ascii_uppercase));
        code.map(Self).ok_or_else(|| Invalid::new("unknown_value"))
    }
}

impl TryFrom<String> for Currency {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map_err(|_| format!("{text:?} is not a currency code"))
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
    use super::Money;

    #[test]
    fn money_is_minor_units_and_a_code() {
        let json = r#"{"AmountMinor":1250000000,"Currency":"RUB"}"#;
        let money: Money = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&money).unwrap(), json);
        for wrong in [r#"{"AmountMinor":1.5,"Currency":"RUB"}"#, r#"{"AmountMinor":1,"Currency":"rub"}"#] {
            assert!(serde_json::from_str::<Money>(wrong).is_err(), "{wrong}");
        }
    }
}
