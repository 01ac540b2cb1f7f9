//! Problem details (RFC 9457): what a failure looks like to a caller, in every area.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use actix_web::http::{Method, StatusCode};
use actix_web::{HttpResponse, ResponseError};
use serde::Serialize;
use utoipa::ToSchema;
use values::Invalid;

use crate::Area;
use crate::messages::Language;
use crate::refusal::{Refusal, RefusedField};

/// A refused member of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// A JSON pointer, such as `/Items/3/PropertyObjectId`.
    pub field: String,
    pub invalid: Invalid,
}

/// Codes that mean the same in every area. In an area with a code prefix they carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Common(&'static str),
    Area(&'static str),
}

/// A failure on its way to the caller. The listener renders it: only there are the language, the
/// path and the trace known.
#[derive(Clone, Debug)]
pub struct Problem(Box<Details>);

/// What a problem says. Behind a box, so that a `Result` with it stays small.
#[derive(Clone, Debug)]
pub(crate) struct Details {
    pub(crate) status: StatusCode,
    pub(crate) code: Code,
    pub(crate) args: Vec<(&'static str, u64)>,
    pub(crate) errors: Vec<FieldError>,
    pub(crate) allow: Vec<Method>,
    pub(crate) retry_after: Option<Duration>,
    /// For the log, never for the caller.
    pub(crate) cause: Option<String>,
}

impl Problem {
    /// A failure of an area's own; its title is in the area's message files under `code`.
    pub fn new(status: StatusCode, code: &'static str) -> Self {
        Self::with_code(status, Code::Area(code))
    }

    fn common(status: StatusCode, code: &'static str) -> Self {
        Self::with_code(status, Code::Common(code))
    }

    fn with_code(status: StatusCode, code: Code) -> Self {
        let (args, errors, allow) = (Vec::new(), Vec::new(), Vec::new());
        Self(Box::new(Details { status, code, args, errors, allow, retry_after: None, cause: None }))
    }

    pub(crate) fn details(&self) -> &Details {
        &self.0
    }

    /// An argument of the message.
    #[must_use]
    pub fn arg(mut self, name: &'static str, value: usize) -> Self {
        self.0.args.push((name, value as u64));
        self
    }

    /// A member that is to blame.
    #[must_use]
    pub fn field(mut self, field: String, invalid: Invalid) -> Self {
        self.0.errors.push(FieldError { field, invalid });
        self
    }

    /// What the log should say.
    #[must_use]
    pub fn caused_by(mut self, cause: &impl fmt::Display) -> Self {
        self.0.cause = Some(cause.to_string());
        self
    }

    /// When the caller may try again.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self
    }

    /// `400 VALIDATION_FAILED` with the members that were refused.
    pub fn validation_failed(errors: Vec<FieldError>) -> Self {
        let mut problem = Self::common(StatusCode::BAD_REQUEST, "VALIDATION_FAILED");
        problem.0.errors = errors;
        problem
    }

    /// `401 UNAUTHORIZED`: no token, or one that does not hold.
    pub fn unauthorized() -> Self {
        Self::common(StatusCode::UNAUTHORIZED, "UNAUTHORIZED")
    }

    /// `403 FORBIDDEN`
    pub fn forbidden() -> Self {
        Self::common(StatusCode::FORBIDDEN, "FORBIDDEN")
    }

    /// `404 NOT_FOUND`: no such route.
    pub fn not_found() -> Self {
        Self::common(StatusCode::NOT_FOUND, "NOT_FOUND")
    }

    /// `405 METHOD_NOT_ALLOWED` with `Allow`. What answers `GET` answers `HEAD`.
    pub fn method_not_allowed(mut allow: Vec<Method>) -> Self {
        if let Some(get) = allow.iter().position(|method| method == Method::GET) {
            allow.insert(get + 1, Method::HEAD);
        }
        let mut problem = Self::common(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED");
        problem.0.allow = allow;
        problem
    }

    /// `408 REQUEST_TIMEOUT`: the body came too slowly.
    pub fn request_timeout() -> Self {
        Self::common(StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT")
    }

    /// `413 PAYLOAD_TOO_LARGE`; `max` in bytes.
    pub fn payload_too_large(max: usize) -> Self {
        Self::common(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE").arg("max", max)
    }

    /// `415 UNSUPPORTED_MEDIA_TYPE`
    pub fn unsupported_media_type() -> Self {
        Self::common(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE")
    }

    /// `429 RATE_LIMITED` with `Retry-After`.
    pub fn rate_limited(wait: Duration) -> Self {
        Self::common(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED").retry_after(wait)
    }

    /// `503 SERVICE_UNAVAILABLE` with `Retry-After`: a dependency is away.
    pub fn unavailable(cause: &impl fmt::Display) -> Self {
        let problem = Self::common(StatusCode::SERVICE_UNAVAILABLE, "SERVICE_UNAVAILABLE");
        problem.caused_by(cause).retry_after(Duration::from_secs(1))
    }

    /// `500 INTERNAL_ERROR`: nothing of the cause leaves the service.
    pub fn internal(cause: &(dyn Error + 'static)) -> Self {
        let chain: Vec<_> = anyhow::Chain::new(cause).map(ToString::to_string).collect();
        Self::common(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR").caused_by(&chain.join(": "))
    }

    /// What actix answers by itself, in our words.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::NOT_FOUND => Self::not_found(),
            StatusCode::PAYLOAD_TOO_LARGE => Self::common(status, "PAYLOAD_TOO_LARGE"),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Self::unsupported_media_type(),
            status if status.is_client_error() => Self::common(status, "VALIDATION_FAILED"),
            _ => Self::common(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Code::Common(code) | Code::Area(code)) = self.0.code;
        write!(f, "{} {code}", self.0.status.as_u16())
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        self.0.status
    }

    /// Only the status, with the problem beside it for the listener to render.
    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::new(self.0.status);
        response.extensions_mut().insert(self.clone());
        response
    }
}

/// The body of every answer of 400 and above.
#[derive(Serialize, ToSchema)]
pub struct ProblemBody {
    /// A URI for the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// What happened, in the caller's language.
    pub title: String,
    pub status: u16,
    /// More about it, in the caller's language.
    pub detail: Option<String>,
    /// The path that was asked for.
    pub instance: String,
    /// Stable; what a program should look at.
    pub code: String,
    #[serde(rename = "traceId")]
    pub trace_id: Option<String>,
    /// With a 400: the members that were refused.
    pub errors: Vec<FieldErrorBody>,
}

impl ProblemBody {
    pub(crate) fn new(
        refusal: &Refusal,
        area: &Area,
        language: &Language<'_>,
        path: &str,
        trace_id: Option<String>,
    ) -> Self {
        let code = area.code(&refusal.id, refusal.is_common);
        let field = |error: &RefusedField| FieldErrorBody {
            field: error.field.clone(),
            code: error.code.clone(),
            message: language.message(&error.code, None, &error.args).unwrap_or_else(|| error.code.clone()),
        };
        Self {
            kind: format!("urn:problem:{}", code.to_lowercase().replace('_', "-")),
            title: language.message(&refusal.id, None, &refusal.args).unwrap_or_else(|| code.clone()),
            status: refusal.status,
            detail: language.message(&refusal.id, Some("detail"), &refusal.args),
            instance: path.to_owned(),
            trace_id,
            errors: refusal.errors.iter().map(field).collect(),
            code,
        }
    }
}

/// A refused member of a request.
#[derive(Serialize, ToSchema)]
pub struct FieldErrorBody {
    /// A JSON pointer.
    pub field: String,
    pub code: String,
    pub message: String,
}
