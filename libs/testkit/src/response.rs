//! A response of a service under test, with assertions.

use reqwest::header::HeaderMap;
use serde_json::Value;

/// A response with its whole body.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    /// `null` if the body is not JSON.
    pub body: Value,
    pub text: String,
}

impl Response {
    /// Returns a header as text, empty if it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Asserts the status and returns the body.
    ///
    /// # Panics
    /// If the status differs.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }

    /// Asserts that the response is this problem, with every member of a problem, and returns its
    /// body.
    ///
    /// # Panics
    /// If the response differs.
    #[track_caller]
    pub fn expect_problem(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(self.body["status"], status);
        for member in ["type", "title", "instance", "traceId"] {
            assert!(
                self.body[member].as_str().is_some_and(|text| !text.is_empty()),
                "{member}: {}",
                self.text
            );
        }
        assert_ne!(self.body["title"], code, "{code} has no title in the message files");
        assert!(self.body.get("detail").is_some() && self.body["errors"].is_array(), "{}", self.text);
        self.body
    }

    /// Asserts that the response is 400 with this code, and that its errors name `field` and
    /// `reason`.
    ///
    /// # Panics
    /// If the response differs.
    #[track_caller]
    pub fn expect_refusal(self, code: &str, field: &str, reason: &str) {
        let body = self.expect_problem(400, code);
        let errors = body["errors"].as_array().expect("errors");
        let reported = errors.iter().find(|error| error["field"] == field && error["code"] == reason);
        let message =
            reported.unwrap_or_else(|| panic!("{field} is not {reason}: {body}"))["message"].as_str();
        assert!(message.is_some_and(|message| !message.is_empty() && message != reason), "{body}");
    }
}
