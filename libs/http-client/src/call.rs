//! What a service asks of others, as it declares it.

use std::fmt::Display;
use std::time::Duration;

use crate::service::{RETRIES, TIMEOUT};

/// An operation that a service calls.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Whose it is.
    pub of: &'static str,
    pub method: &'static str,
    /// As the other's document has it, with one part in braces.
    pub path: &'static str,
    /// Of one try.
    pub timeout: Duration,
    /// What has failed for a moment is tried so many times more.
    pub retries: u32,
}

impl Call {
    pub const fn get(of: &'static str, path: &'static str) -> Self {
        Self { of, method: "GET", path, timeout: TIMEOUT, retries: RETRIES }
    }

    /// One that may be done twice.
    pub const fn post(of: &'static str, path: &'static str) -> Self {
        Self { method: "POST", ..Self::get(of, path) }
    }

    /// The path, with this in place of the part in braces.
    pub fn at(&self, part: impl Display) -> String {
        let (before, rest) = self.path.split_once('{').unwrap_or((self.path, ""));
        let (_, after) = rest.split_once('}').unwrap_or_default();
        format!("{before}{part}{after}")
    }
}

#[cfg(test)]
mod tests {
    use super::Call;

    #[test]
    fn the_part_in_braces_is_what_is_asked_for() {
        assert_eq!(Call::get("shelves", "/shelves/{id}/books").at(7), "/shelves/7/books");
        assert_eq!(Call::get("shelves", "/shelves/{id}").at("new"), "/shelves/new");
    }
}
