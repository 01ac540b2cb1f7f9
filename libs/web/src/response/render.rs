//! Problems as callers see them.

use std::collections::BTreeMap;
use std::fmt::Write;

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;
use utoipa::ToSchema;

use crate::listener::Area;
use crate::messages::Language;
use crate::response::problem::Details;
use crate::response::refusal::{Refusal, RefusedField};

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
    /// What a code says beside.
    #[serde(flatten)]
    #[schema(ignore)]
    pub members: BTreeMap<String, String>,
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
            members: refusal.member.iter().cloned().collect(),
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

/// A problem as the caller of this request sees it.
pub(crate) fn render(problem: &Details, area: &Area, request: &HttpRequest) -> HttpResponse {
    let status = StatusCode::from_u16(problem.code.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let language = area.messages.negotiate(request);
    let body =
        ProblemBody::new(&problem.into(), area, &language, request.path(), runtime::telemetry::trace_id());
    let mut response = HttpResponse::build(status);
    response.insert_header((header::CONTENT_LANGUAGE, language.language));
    response.insert_header((header::VARY, "Accept-Language"));
    if status == StatusCode::UNAUTHORIZED {
        response.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
    }
    if let Some(wait) = problem.retry_after {
        response.insert_header((header::RETRY_AFTER, wait.as_secs_f64().ceil().max(1.0).to_string()));
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
