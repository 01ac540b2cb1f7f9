//! What a refusal is called.

/// A refusal as the contract lists it: its status, its code, and the words that its message is made with. A service
/// keeps each in a line: `pub const POST_NOT_FOUND: Code = Code::new(404, "NEWS_POST_NOT_FOUND");`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Of the HTTP answer.
    pub status: u16,
    /// Also the message's id in the message files.
    pub id: &'static str,
    /// Means the same in every area; in one with a code prefix it carries that.
    pub is_common: bool,
    /// An argument of the messages.
    pub arg: Option<(&'static str, u64)>,
    /// Another one, a text, with an example for documents.
    pub text: Option<(&'static str, &'static str)>,
    /// A further member of its problems, a text, with an example for documents.
    pub member: Option<&'static (&'static str, &'static str)>,
    /// The member that is to blame, as a JSON pointer, and what is wrong with it.
    pub field: Option<(&'static str, &'static str)>,
    /// Seconds after which the same may be tried again.
    pub retry_after: Option<u16>,
    /// What happened meanwhile stood in its way: the same may succeed after a reread.
    pub is_conflict: bool,
}

impl Code {
    /// A code of an area's own.
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

    /// A code that every area has.
    pub const fn common(status: u16, id: &'static str) -> Self {
        Self { is_common: true, ..Self::new(status, id) }
    }

    /// The code of a lost race: `409`.
    pub const fn conflict(id: &'static str) -> Self {
        Self { is_conflict: true, ..Self::new(409, id) }
    }

    /// With an argument for its messages.
    #[must_use]
    pub const fn with(self, name: &'static str, value: u64) -> Self {
        Self { arg: Some((name, value)), ..self }
    }

    /// With an argument for its messages that is a text, and an example of it.
    #[must_use]
    pub const fn naming(self, name: &'static str, example: &'static str) -> Self {
        Self { text: Some((name, example)), ..self }
    }

    /// With a further member of its problems that is a text, and an example of it.
    #[must_use]
    pub const fn showing(self, member: &'static (&'static str, &'static str)) -> Self {
        Self { member: Some(member), ..self }
    }

    /// With the member that is to blame.
    #[must_use]
    pub const fn at(self, field: &'static str, code: &'static str) -> Self {
        Self { field: Some((field, code)), ..self }
    }

    /// With the time after which the same may be tried again.
    #[must_use]
    pub const fn retry_after(self, seconds: u16) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// Whether the same may succeed later: what a person may repeat, and a consumer does.
    pub const fn is_transient(self) -> bool {
        self.is_conflict || matches!(self.status, 429 | 503)
    }
}
