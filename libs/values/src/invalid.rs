//! The reason why a value is invalid.

/// The reason why a value is invalid: a stable code with the arguments of its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// A lower-case code of the API, such as `too_long`. It is also the id of the message.
    pub code: &'static str,
    /// Arguments of the message, such as `("max", 200)`.
    pub args: Vec<(&'static str, i64)>,
}

impl Invalid {
    pub fn new(code: &'static str) -> Self {
        Self { code, args: Vec::new() }
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, value: usize) -> Self {
        self.args.push((name, i64::try_from(value).unwrap_or(i64::MAX)));
        self
    }
}

/// Prints the code, for errors of settings.
impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.code)
    }
}

/// An invalid member of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// A JSON pointer, such as `/Items/3/PropertyObjectId`.
    pub field: String,
    pub invalid: Invalid,
}
