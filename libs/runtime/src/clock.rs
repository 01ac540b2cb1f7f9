//! The system clock. Edges read it once and pass the time as an argument.

use time::OffsetDateTime;

/// Returns the current time in UTC, truncated to microseconds.
///
/// PostgreSQL stores microseconds, so a stored timestamp equals the original.
#[expect(clippy::disallowed_methods, reason = "the only place that reads the clock")]
pub fn now() -> OffsetDateTime {
    let now = OffsetDateTime::now_utc();
    now.replace_microsecond(now.microsecond()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    /// RULE-ALL-004: times have at most microseconds.
    #[test]
    fn now_is_truncated_to_microseconds() {
        assert_eq!(super::now().nanosecond() % 1_000, 0);
    }
}
