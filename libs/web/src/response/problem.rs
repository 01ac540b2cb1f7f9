//! Problems (RFC 9457): the errors of every service.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use actix_web::http::{Method, StatusCode};
use actix_web::{HttpResponse, ResponseError};
use values::{Code, FieldError, Invalid};

/// The token is missing or invalid.
pub const UNAUTHORIZED: Code = Code::common(401, "UNAUTHORIZED");
pub const FORBIDDEN: Code = Code::common(403, "FORBIDDEN");
/// The path has no such method. The response has `Allow`.
pub const METHOD_NOT_ALLOWED: Code = Code::common(405, "METHOD_NOT_ALLOWED");
/// A dependency is unavailable, or the service is overloaded.
pub const SERVICE_UNAVAILABLE: Code = Code::common(503, "SERVICE_UNAVAILABLE").retry_after(1);
/// The response to a commit was lost, so the change may be stored. There is no `Retry-After`, since
/// a repeat without a check could make the change twice.
pub const OUTCOME_UNKNOWN: Code = Code::common(503, "OUTCOME_UNKNOWN");

/// The first request with this `Idempotency-Key` has no response yet.
pub const IDEMPOTENCY_KEY_IN_USE: Code = Code::common(409, "IDEMPOTENCY_KEY_IN_USE");
/// The caller has sent another request with this `Idempotency-Key`.
pub const IDEMPOTENCY_KEY_REUSED: Code = Code::common(422, "IDEMPOTENCY_KEY_REUSED");

/// An error response.
///
/// The listener's middleware renders the problem in the caller's language, with path and trace id.
#[derive(Clone, Debug)]
pub struct Problem(Box<Details>);

/// The contents of a problem, in a box that keeps `Result<_, Problem>` small.
#[derive(Clone, Debug)]
pub(crate) struct Details {
    pub(crate) code: Code,
    pub(crate) args: Vec<(&'static str, i64)>,
    pub(crate) text: Option<(&'static str, String)>,
    pub(crate) member: Option<(&'static str, String)>,
    pub(crate) errors: Vec<FieldError>,
    pub(crate) allow: Vec<Method>,
    pub(crate) retry_after: Option<Duration>,
    /// The cause, for the log only.
    pub(crate) cause: Option<String>,
}

/// Creates the problem of a code. The message files have its title under the code's id.
impl From<Code> for Problem {
    fn from(code: Code) -> Self {
        let number = |(name, value): (_, u64)| (name, i64::try_from(value).unwrap_or(i64::MAX));
        let args: Vec<_> = code.arg.into_iter().map(number).collect();
        let error = |(field, code): (&str, _)| FieldError {
            field: field.to_owned(),
            invalid: Invalid { code, args: args.clone() },
        };
        let errors = code.field.into_iter().map(error).collect();
        let retry_after = code.retry_after.map(|seconds| Duration::from_secs(seconds.into()));
        let text = code.text.map(|(name, example)| (name, example.to_owned()));
        let member = code.member.map(|(name, example)| (*name, (*example).to_owned()));
        Self(Box::new(Details {
            code,
            args,
            text,
            member,
            errors,
            allow: Vec::new(),
            retry_after,
            cause: None,
        }))
    }
}

impl Problem {
    pub fn code(&self) -> Code {
        self.0.code
    }

    pub(crate) fn details(&self) -> &Details {
        &self.0
    }

    /// Replaces the pointer of the invalid member that the code declares.
    #[must_use]
    pub fn at(mut self, field: &str) -> Self {
        for error in &mut self.0.errors {
            field.clone_into(&mut error.field);
        }
        self
    }

    /// Sets the invalid members.
    #[must_use]
    pub fn with_errors(mut self, errors: Vec<FieldError>) -> Self {
        self.0.errors = errors;
        self
    }

    /// Sets the text argument of the messages, if the code declares one in [`Code::text`].
    #[must_use]
    pub fn with_text(mut self, text: String) -> Self {
        self.0.text = self.0.code.text.map(|(name, _)| (name, text));
        self
    }

    /// Sets the additional member, if the code declares one in [`Code::member`].
    #[must_use]
    pub fn with_member(mut self, text: String) -> Self {
        self.0.member = self.0.code.member.map(|(name, _)| (*name, text));
        self
    }

    /// Sets the cause, for the log only.
    #[must_use]
    pub fn caused_by(mut self, cause: &impl fmt::Display) -> Self {
        self.0.cause = Some(cause.to_string());
        self
    }

    pub fn cause(&self) -> Option<&str> {
        self.0.cause.as_deref()
    }

    /// Sets `Retry-After`.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.0.retry_after = Some(delay);
        self
    }

    /// Returns `400 VALIDATION_FAILED` with the invalid members.
    pub fn validation_failed(errors: Vec<FieldError>) -> Self {
        Self::from(Code::common(400, "VALIDATION_FAILED")).with_errors(errors)
    }

    /// Returns `401 UNAUTHORIZED`: the token is missing or invalid.
    pub fn unauthorized() -> Self {
        UNAUTHORIZED.into()
    }

    /// Returns `403 FORBIDDEN`.
    pub fn forbidden() -> Self {
        FORBIDDEN.into()
    }

    /// Returns `404 NOT_FOUND`: no route matches the path.
    pub fn not_found() -> Self {
        Code::common(404, "NOT_FOUND").into()
    }

    /// Returns `405 METHOD_NOT_ALLOWED` with `Allow`, which has `HEAD` if it has `GET`.
    pub fn method_not_allowed(mut allow: Vec<Method>) -> Self {
        if let Some(get) = allow.iter().position(|method| method == Method::GET) {
            allow.insert(get + 1, Method::HEAD);
        }
        let mut problem = Self::from(METHOD_NOT_ALLOWED);
        problem.0.allow = allow;
        problem
    }

    /// Returns `408 REQUEST_TIMEOUT`: the body arrived too slowly.
    pub fn request_timeout() -> Self {
        Code::common(408, "REQUEST_TIMEOUT").into()
    }

    /// Returns `413 PAYLOAD_TOO_LARGE` with the limit `max` in bytes.
    pub fn payload_too_large(max: usize) -> Self {
        Code::common(413, "PAYLOAD_TOO_LARGE").with_arg("max", max as u64).into()
    }

    /// Returns `415 UNSUPPORTED_MEDIA_TYPE`.
    pub fn unsupported_media_type() -> Self {
        Code::common(415, "UNSUPPORTED_MEDIA_TYPE").into()
    }

    /// Returns `429 RATE_LIMITED` with `Retry-After`.
    pub fn rate_limited(delay: Duration) -> Self {
        Self::from(Code::common(429, "RATE_LIMITED")).retry_after(delay)
    }

    /// Returns `503 SERVICE_UNAVAILABLE` with `Retry-After`. The cause is logged and not returned.
    pub fn unavailable(cause: &impl fmt::Display) -> Self {
        Self::from(SERVICE_UNAVAILABLE).caused_by(cause)
    }

    /// Returns `503 OUTCOME_UNKNOWN` without `Retry-After`. The cause is logged and not returned.
    pub fn outcome_unknown(cause: &impl fmt::Display) -> Self {
        Self::from(OUTCOME_UNKNOWN).caused_by(cause)
    }

    /// Returns `500 INTERNAL_ERROR`. The cause is logged and not returned.
    pub fn internal(cause: &(dyn Error + 'static)) -> Self {
        let chain: Vec<_> = anyhow::Chain::new(cause).map(ToString::to_string).collect();
        Self::from(Code::common(500, "INTERNAL_ERROR")).caused_by(&chain.join(": "))
    }

    /// Returns the problem of a response that actix has created by itself.
    pub(crate) fn from_status(status: StatusCode) -> Self {
        let common = |id| Self::from(Code::common(status.as_u16(), id));
        match status {
            StatusCode::NOT_FOUND => Self::not_found(),
            StatusCode::PAYLOAD_TOO_LARGE => common("PAYLOAD_TOO_LARGE"),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Self::unsupported_media_type(),
            status if status.is_client_error() => common("VALIDATION_FAILED"),
            _ => Code::common(500, "INTERNAL_ERROR").into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0.code.status, self.0.code.id)
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.0.code.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns an empty response that carries the problem for the middleware to render.
    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::new(self.status_code());
        response.extensions_mut().insert(self.clone());
        response
    }
}
