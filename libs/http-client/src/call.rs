//! Declarations of the operations that a service calls.

use std::fmt::Display;
use std::time::Duration;

/// The timeout of one attempt, from the request for a token to the last byte of the response.
pub(crate) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of retries after a transient failure.
pub(crate) const MAX_RETRIES: u32 = 2;

/// An operation of another service that a service calls.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The called service.
    pub service: &'static str,
    pub method: &'static str,
    /// The path in the called service's document, with at most one parameter in braces.
    pub path: &'static str,
    /// The timeout of one attempt.
    pub timeout: Duration,
    pub retries: u32,
}

impl Call {
    pub const fn get(service: &'static str, path: &'static str) -> Self {
        Self { service, method: "GET", path, timeout: ATTEMPT_TIMEOUT, retries: MAX_RETRIES }
    }

    /// Declares a `POST` that is safe to repeat.
    pub const fn post(service: &'static str, path: &'static str) -> Self {
        Self { method: "POST", ..Self::get(service, path) }
    }

    /// Returns the path with `value` in place of its parameter.
    pub fn path_with(&self, value: impl Display) -> String {
        let (before, rest) = self.path.split_once('{').unwrap_or((self.path, ""));
        let (_, after) = rest.split_once('}').unwrap_or_default();
        format!("{before}{value}{after}")
    }
}

#[cfg(test)]
mod tests {
    use super::Call;

    /// RULE-ALL-066: a caller sends its values in the documented path.
    #[test]
    fn value_replaces_the_path_parameter() {
        assert_eq!(Call::get("shelves", "/shelves/{id}/books").path_with(7), "/shelves/7/books");
        assert_eq!(Call::get("shelves", "/shelves/{id}").path_with("new"), "/shelves/new");
    }
}
