//! The one place that asks what time it is. Edges call it once and pass the answer on.

use time::OffsetDateTime;

/// The current time in UTC, cut to microseconds: what PostgreSQL keeps, so that a value that was
/// written and one that was read are equal.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub fn now() -> OffsetDateTime {
    let now = OffsetDateTime::now_utc();
    now.replace_microsecond(now.microsecond()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    #[test]
    fn now_has_no_more_than_microseconds() {
        assert_eq!(super::now().nanosecond() % 1_000, 0);
    }
}
