//! Codes of refusals.

use time::OffsetDateTime;

/// A refusal of the API: its status, its code and the arguments of its message.
///
/// A service declares each refusal in one line:
/// `pub const POST_NOT_FOUND: Code = Code::new(404, "NEWS_POST_NOT_FOUND");`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// The HTTP status.
    pub status: u16,
    /// The code, which is also the id of the message.
    pub id: &'static str,
    /// True for a code that all services have. Its wire form begins with the code prefix of the
    /// service.
    pub is_common: bool,
    /// A numeric argument of the message.
    pub arg: Option<(&'static str, u64)>,
    /// A text argument of the message: its name, and an example for documents.
    pub text: Option<(&'static str, &'static str)>,
    /// A further text member of the problem: its name, and an example for documents.
    pub member: Option<&'static (&'static str, &'static str)>,
    /// The invalid member of the request as a JSON pointer, and the code of its error.
    pub field: Option<(&'static str, &'static str)>,
    /// Seconds until a retry may succeed.
    pub retry_after: Option<u16>,
    /// True if a concurrent change caused the refusal. A retry with newly read data may succeed.
    pub is_conflict: bool,
}

impl Code {
    /// Declares a code of one service.
    pub const fn new(status: u16, id: &'static str) -> Self {
        Self {
            status,
            id,
            is_common: false,
            arg: None,
            text: None,
            member: None,
            field: None,
            retry_after: None,
            is_conflict: false,
        }
    }

    /// Declares a code that all services have.
    pub const fn common(status: u16, id: &'static str) -> Self {
        Self { is_common: true, ..Self::new(status, id) }
    }

    /// Declares a refusal because of a concurrent change, with status 409.
    pub const fn conflict(id: &'static str) -> Self {
        Self { is_conflict: true, ..Self::new(409, id) }
    }

    /// Adds a numeric argument of the message.
    #[must_use]
    pub const fn with_arg(self, name: &'static str, value: u64) -> Self {
        Self { arg: Some((name, value)), ..self }
    }

    /// Adds a text argument of the message, with an example.
    #[must_use]
    pub const fn with_text(self, name: &'static str, example: &'static str) -> Self {
        Self { text: Some((name, example)), ..self }
    }

    /// Adds a text member of the problem, with an example.
    #[must_use]
    pub const fn with_member(self, member: &'static (&'static str, &'static str)) -> Self {
        Self { member: Some(member), ..self }
    }

    /// Sets the invalid member of the request, with the code of its error.
    #[must_use]
    pub const fn at(self, field: &'static str, code: &'static str) -> Self {
        Self { field: Some((field, code)), ..self }
    }

    /// Sets the number of seconds until a retry may succeed.
    #[must_use]
    pub const fn retry_after(self, seconds: u16) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// Sets the time at which a retry may succeed. The number of seconds is rounded up, so that a
    /// retry after the wait comes later.
    #[must_use]
    pub fn retry_at(self, end: OffsetDateTime, now: OffsetDateTime) -> Self {
        let seconds = ((end - now).whole_seconds() + 1).max(1);
        self.retry_after(u16::try_from(seconds).unwrap_or(u16::MAX))
    }

    /// Returns true if a retry may succeed. Consumers retry such errors.
    pub const fn is_transient(self) -> bool {
        self.is_conflict || matches!(self.status, 429 | 503)
    }
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime};

    use super::Code;

    #[test]
    fn retry_after_is_rounded_up_and_bounded() {
        let now = OffsetDateTime::UNIX_EPOCH;
        let seconds = |wait| Code::new(429, "TOO_MANY").retry_at(now + wait, now).retry_after;
        assert_eq!(seconds(Duration::milliseconds(1_500)), Some(2));
        assert_eq!(seconds(Duration::seconds(2)), Some(3));
        assert_eq!(seconds(Duration::seconds(-9)), Some(1));
        assert_eq!(seconds(Duration::DAY), Some(u16::MAX));
    }

    /// Each method changes its own part of a code.
    #[test]
    fn code_has_the_parts_that_it_declares() {
        const MEMBER: (&str, &str) = ("HeldBy", "Anna");
        let code = Code::common(429, "TOO_MANY")
            .with_arg("max", 3)
            .with_text("name", "Spring")
            .with_member(&MEMBER)
            .at("/Title", "too_long")
            .retry_after(9);
        let expected = Code {
            status: 429,
            id: "TOO_MANY",
            is_common: true,
            arg: Some(("max", 3)),
            text: Some(("name", "Spring")),
            member: Some(&MEMBER),
            field: Some(("/Title", "too_long")),
            retry_after: Some(9),
            is_conflict: false,
        };
        assert_eq!(code, expected);
        assert_eq!(Code::conflict("TAKEN"), Code { is_conflict: true, ..Code::new(409, "TAKEN") });
    }

    /// Consumers retry after a conflict, a limit and an outage.
    #[test]
    fn conflict_limit_and_outage_are_transient() {
        assert!(Code::conflict("TAKEN").is_transient());
        assert!(Code::new(429, "LIMITED").is_transient() && Code::new(503, "UNAVAILABLE").is_transient());
        assert!(!Code::new(409, "TAKEN").is_transient() && !Code::new(404, "MISSING").is_transient());
    }
}
