//! The code that opens a selection without a token.

use std::fmt;
use std::str::FromStr;

use rand::CryptoRng;
use rand::distr::{Alphanumeric, SampleString};
use serde::Serialize;

/// Twelve case-sensitive characters of base62. Their 71 bits cannot be guessed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct PublicCode(String);

impl PublicCode {
    const LENGTH: usize = 12;
    /// Maximum number of attempts after the first collision (INV-SEL-005).
    pub const MAX_REGENERATIONS: usize = 3;

    /// Generates a code from a cryptographic source.
    pub fn generate(random: &mut impl CryptoRng) -> Self {
        Self(Alphanumeric.sample_string(random, Self::LENGTH))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The error for a text that does not have the shape of a code.
#[derive(Debug)]
pub struct InvalidPublicCode;

impl FromStr for PublicCode {
    type Err = InvalidPublicCode;

    fn from_str(text: &str) -> Result<Self, InvalidPublicCode> {
        let is_code = text.len() == Self::LENGTH && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if is_code { Ok(Self(text.to_owned())) } else { Err(InvalidPublicCode) }
    }
}

impl fmt::Display for PublicCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::PublicCode;

    proptest! {
        /// INV-SEL-005: a generated code has twelve characters of base62.
        #[test]
        fn generated_code_has_the_shape_of_a_code(_ in 0..256_u32) {
            let code = PublicCode::generate(&mut rand::rng());
            prop_assert_eq!(code.as_str().parse::<PublicCode>().unwrap(), code);
        }

        /// INV-SEL-005: twelve characters of base62 are a code, and every other text is not.
        #[test]
        fn text_of_another_shape_is_not_a_code(text in prop_oneof!["\\PC{0,16}", "[0-9A-Za-z]{11,13}"]) {
            let is_code = text.len() == 12 && text.chars().all(|c| c.is_ascii_digit() || c.is_ascii_alphabetic());
            prop_assert_eq!(text.parse::<PublicCode>().is_ok(), is_code);
        }
    }

    /// INV-SEL-005: each of the 62 characters occurs.
    #[test]
    fn generated_codes_use_the_whole_alphabet() {
        let codes: String = (0..2_000).map(|_| PublicCode::generate(&mut rand::rng()).to_string()).collect();
        let seen: std::collections::BTreeSet<char> = codes.chars().collect();
        assert_eq!(seen.len(), 62);
    }
}
