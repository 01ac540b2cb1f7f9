//! Constant patterns.

use regex::Regex;

/// Compiles a constant pattern.
///
/// # Panics
/// If the pattern is not valid.
#[expect(clippy::expect_used, reason = "the patterns are constant")]
pub fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a valid pattern")
}
