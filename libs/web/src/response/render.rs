//! The body and headers of a problem response.

use std::collections::BTreeMap;
use std::fmt::Write;

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;
use utoipa::ToSchema;

use crate::listener::ServiceInfo;
use crate::messages::Language;
use crate::response::problem::Details;
use crate::response::refusal::{Refusal, RefusedField};

/// The maximum number of random seconds that a 503 adds to its `Retry-After`. Otherwise all clients
/// that were rejected within the same second would also retry within the same second.
const RETRY_SPREAD_SECONDS: u8 = 2;

/// The body of every response with a status of 400 and above.
#[derive(Serialize, ToSchema)]
pub struct ProblemBody {
    /// A URI of the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// A summary of the error, in the caller's language.
    pub title: String,
    pub status: u16,
    /// An explanation, in the caller's language.
    pub detail: Option<String>,
    /// The path of the request.
    pub instance: String,
    /// The stable code of the error, for programs.
    pub code: String,
    #[serde(rename = "traceId")]
    pub trace_id: Option<String>,
    /// The invalid members of the request, for a 400 and for the codes that name members. Otherwise
    /// empty.
    pub errors: Vec<FieldErrorBody>,
    /// Additional members that some codes have.
    #[serde(flatten)]
    #[schema(ignore)]
    pub members: BTreeMap<String, String>,
}

impl ProblemBody {
    pub(crate) fn new(
        refusal: &Refusal,
        service: &ServiceInfo,
        language: &Language<'_>,
        path: &str,
        trace_id: Option<String>,
    ) -> Self {
        let code = service.code(&refusal.id, refusal.is_common);
        let field = |error: &RefusedField| FieldErrorBody {
            field: error.field.clone(),
            code: error.code.clone(),
            message: language.render(&error.code, None, &error.args).unwrap_or_else(|| error.code.clone()),
        };
        Self {
            kind: format!("urn:problem:{}", code.to_lowercase().replace('_', "-")),
            title: language.render(&refusal.id, None, &refusal.args).unwrap_or_else(|| code.clone()),
            status: refusal.status,
            detail: language.render(&refusal.id, Some("detail"), &refusal.args),
            instance: path.to_owned(),
            trace_id,
            errors: refusal.errors.iter().map(field).collect(),
            members: refusal.member.iter().cloned().collect(),
            code,
        }
    }
}

/// An invalid member of a request.
#[derive(Serialize, ToSchema)]
pub struct FieldErrorBody {
    /// A JSON pointer, such as `/Price/Currency` of a body or `/PageSize` of a query.
    pub field: String,
    /// The stable code of the error, for programs. Every service has `malformed`, `invalid_type`,
    /// `required`, `duplicate`, `too_short`, `too_long`, `too_few`, `too_many`, `out_of_range`,
    /// `out_of_bounds`, `too_precise`, `forbidden_character`, `unknown_value`, `empty_range`,
    /// `empty_id`, `bad_email`, `bad_phone`, `bad_url`, `personal_data` and `secret`. A service has
    /// further ones, so a client shows `message` for a code that it does not know.
    pub code: String,
    pub message: String,
}

/// Renders a problem as the response to `request`, in the caller's language.
pub(crate) fn render(problem: &Details, service: &ServiceInfo, request: &HttpRequest) -> HttpResponse {
    let status = StatusCode::from_u16(problem.code.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let language = service.messages.negotiate(request);
    let body =
        ProblemBody::new(&problem.into(), service, &language, request.path(), runtime::telemetry::trace_id());
    let mut response = HttpResponse::build(status);
    response.insert_header((header::CONTENT_LANGUAGE, language.language));
    response.insert_header((header::VARY, "Accept-Language"));
    if status == StatusCode::UNAUTHORIZED {
        response.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
    }
    if let Some(delay) = problem.retry_after {
        let mut seconds = delay.as_secs_f64().ceil().max(1.0);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            seconds += f64::from(rand::random_range(0..=RETRY_SPREAD_SECONDS));
        }
        response.insert_header((header::RETRY_AFTER, seconds.to_string()));
    }
    if !problem.allow.is_empty() {
        let mut allow = String::new();
        for method in &problem.allow {
            let separator = if allow.is_empty() { "" } else { ", " };
            // Writing to a string cannot fail.
            let _ = write!(allow, "{separator}{method}");
        }
        response.insert_header((header::ALLOW, allow));
    }
    let mut response = response.json(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response
}
