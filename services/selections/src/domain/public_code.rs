//! The code that opens a selection to anybody who has it.

use std::fmt;
use std::str::FromStr;

use rand::CryptoRng;
use rand::distr::{Alphanumeric, SampleString};
use serde::Serialize;

/// Twelve characters of base62, about 71 bits: not to be guessed. Case matters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct PublicCode(String);

impl PublicCode {
    const LENGTH: usize = 12;
    /// Attempts beside the first, when a code is taken already (INV-SEL-005).
    pub const MAX_REGENERATIONS: usize = 3;

    /// A code from a cryptographic source.
    pub fn generate(random: &mut impl CryptoRng) -> Self {
        Self(Alphanumeric.sample_string(random, Self::LENGTH))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text does not have the shape of a code.
#[derive(Debug)]
pub struct NotACode;

impl FromStr for PublicCode {
    type Err = NotACode;

    fn from_str(text: &str) -> Result<Self, NotACode> {
        let is_code = text.len() == Self::LENGTH && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if is_code { Ok(Self(text.to_owned())) } else { Err(NotACode) }
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
        /// INV-SEL-005: twelve characters of base62.
        #[test]
        fn a_generated_code_has_the_shape_of_a_code(_ in 0..256_u32) {
            let code = PublicCode::generate(&mut rand::rng());
            prop_assert_eq!(code.as_str().parse::<PublicCode>().unwrap(), code);
        }

        #[test]
        fn only_twelve_base62_characters_are_a_code(text in "\\PC{0,16}") {
            let is_code = text.len() == 12 && text.chars().all(|c| c.is_ascii_digit() || c.is_ascii_alphabetic());
            prop_assert_eq!(text.parse::<PublicCode>().is_ok(), is_code);
        }
    }

    #[test]
    fn every_character_of_the_alphabet_occurs() {
        let codes: String = (0..2_000).map(|_| PublicCode::generate(&mut rand::rng()).to_string()).collect();
        let seen: std::collections::BTreeSet<char> = codes.chars().collect();
        assert_eq!(seen.len(), 62);
    }
}
