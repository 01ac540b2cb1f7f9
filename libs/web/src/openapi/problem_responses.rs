//! The problem responses of an operation.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use actix_web::http::Method;
use utoipa::ToSchema;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{AllOf, AllOfBuilder, Components, ObjectBuilder, Schema, Type};
use utoipa::openapi::{ContentBuilder, Ref, RefOr};
use values::{FieldError, Invalid};

use crate::listener::{Callers, ServiceInfo};
use crate::openapi::caching::text_header;
use crate::openapi::declarations::take_refusals;
use crate::openapi::idempotency::is_idempotency_key;
use crate::openapi::schemas::is_json;
use crate::openapi::security::is_open_to_guests;
use crate::request::json::DEFAULT_LIMIT;
use crate::response::problem::{IDEMPOTENCY_KEY_IN_USE, IDEMPOTENCY_KEY_REUSED, OUTCOME_UNKNOWN, Problem};
use crate::response::refusal::Refusal;
use crate::response::render::ProblemBody;

const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

const EXAMPLE_ID: &str = "01932b4e-7c1a-7d3e-9f00-5c0fa8b1d2e3";
const EXAMPLE_TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Adds a response for each status of the operation's refusals.
pub(super) fn add_problem_responses(
    operation: &mut Operation,
    method: &Method,
    path: &str,
    callers: Callers,
    service: &ServiceInfo,
    components: &mut Components,
) {
    let mut by_status: BTreeMap<u16, Vec<Refusal>> = BTreeMap::new();
    let code = |refusal: &Refusal| service.code(&refusal.id, refusal.is_common);
    let declared = take_refusals(&mut operation.extensions);
    for refusal in declared.into_iter().chain(implied_refusals(operation, method, callers)) {
        let same_status = by_status.entry(refusal.status).or_default();
        // A declared refusal is more precise than the implied one of the same code.
        if same_status.iter().all(|other| code(other) != code(&refusal)) {
            same_status.push(refusal);
        }
    }
    for (status, refusals) in by_status {
        // Operations share a response that has a single code or only common codes, because it is
        // the same for all of them.
        let is_shared = refusals.len() == 1 || refusals.iter().all(|refusal| refusal.is_common);
        let name = if is_shared || refusals.len() == 2 {
            let ids: Vec<_> = refusals.iter().map(|refusal| pascal_case(&code(refusal))).collect();
            ids.join("Or")
        } else {
            format!("{}{status}", pascal_case(operation.operation_id.as_deref().unwrap_or_default()))
        };
        let schema_name = format!("{name}Problem");
        let schema = || Schema::AllOf(problem_schema(&refusals, service)).into();
        components.schemas.entry(schema_name.clone()).or_insert_with(schema);
        let describe = || problem_response(&refusals, &schema_name, path, service);
        let response = if is_shared {
            let names: Vec<_> = refusals.iter().map(shared_name).collect();
            let name = names.join("-");
            components.responses.entry(name.clone()).or_insert_with(|| describe().into());
            RefOr::Ref(Ref::from_response_name(name))
        } else {
            describe().into()
        };
        operation.responses.responses.insert(status.to_string(), response);
    }
}

/// Returns the refusals of the operation's extractors and of the middlewares around it.
fn implied_refusals(operation: &Operation, method: &Method, callers: Callers) -> Vec<Refusal> {
    let mut problems = vec![Problem::internal(&fmt::Error), Problem::unavailable(&"")];
    if !is_open_to_guests(operation) {
        problems.push(Problem::unauthorized());
    }
    if method != Method::GET {
        problems.push(OUTCOME_UNKNOWN.into());
    }
    match callers {
        Callers::Users => problems.push(Problem::rate_limited(Duration::from_secs(1))),
        Callers::Services => problems.push(Problem::forbidden()),
    }
    let invalid = |field: &str, code| {
        Problem::validation_failed(vec![FieldError { field: field.to_owned(), invalid: Invalid::new(code) }])
    };
    let mut parameters = operation.parameters.iter().flatten().filter_map(|parameter| match parameter {
        RefOr::T(parameter) => Some(parameter),
        RefOr::Ref(_) => None,
    });
    if parameters.clone().any(|parameter| parameter.parameter_in == ParameterIn::Path) {
        problems.push(Problem::not_found());
    }
    if parameters.clone().any(is_idempotency_key) {
        problems.extend([IDEMPOTENCY_KEY_IN_USE, IDEMPOTENCY_KEY_REUSED].map(Problem::from));
    }
    if let Some(query) = parameters.find(|parameter| parameter.parameter_in == ParameterIn::Query) {
        problems.push(invalid(&format!("/{}", query.name), "unknown_value"));
    }
    if let Some(body) = &operation.request_body {
        problems.push(invalid("", "malformed"));
        problems.push(Problem::request_timeout());
        problems.push(Problem::payload_too_large(DEFAULT_LIMIT));
        // A file has any media type.
        if matches!(body, RefOr::T(body) if body.content.keys().any(|media_type| is_json(media_type))) {
            problems.push(Problem::unsupported_media_type());
        }
    }
    problems.iter().map(|problem| problem.details().into()).collect()
}

/// Describes a problem with the codes of the refusals.
fn problem_schema(refusals: &[Refusal], service: &ServiceInfo) -> AllOf {
    let codes: Vec<_> = refusals.iter().map(|refusal| service.code(&refusal.id, refusal.is_common)).collect();
    let code = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(codes));
    let code = code.description(Some("The stable code of the error, for programs."));
    let members = refusals.iter().filter_map(|refusal| refusal.member.as_ref());
    let variant = members.fold(ObjectBuilder::new().property("code", code), |variant, (name, _)| {
        variant.property(name, ObjectBuilder::new().schema_type(Type::String))
    });
    AllOfBuilder::new().item(Ref::from_schema_name(ProblemBody::name())).item(variant).build()
}

/// Describes the refusals of one status, with an example of each.
fn problem_response(refusals: &[Refusal], schema_name: &str, path: &str, service: &ServiceInfo) -> Response {
    let language = service.messages.english();
    let path = example_path(path);
    let mut content = ContentBuilder::new();
    let mut titles = Vec::new();
    for refusal in refusals {
        let body = ProblemBody::new(refusal, service, &language, &path, Some(EXAMPLE_TRACE_ID.to_owned()));
        let value = serde_json::to_value(&body).ok();
        let example = ExampleBuilder::new().summary(body.title.clone()).value(value);
        content = content.examples_from_iter([(body.code, example)]);
        titles.push(body.title);
    }
    let schema = Ref::from_schema_name(schema_name);
    let mut response = ResponseBuilder::new()
        .description(titles.join(". "))
        .content(PROBLEM_MEDIA_TYPE, content.schema(Some(schema)).build());
    if refusals.iter().any(|refusal| refusal.has_retry_after) {
        response = response.header("Retry-After", text_header("Seconds to wait before a retry"));
    }
    if refusals.iter().any(|refusal| refusal.has_allow) {
        response = response.header("Allow", text_header("The allowed methods"));
    }
    if refusals.iter().any(|refusal| refusal.status == 401) {
        response = response.header("WWW-Authenticate", text_header("`Bearer`"));
    }
    response.build()
}

/// Returns the name of a response that operations share. A body with another limit has another
/// text.
fn shared_name(refusal: &Refusal) -> String {
    let default_limit = i64::try_from(DEFAULT_LIMIT).ok();
    match refusal.args.numbers.iter().find(|(name, _)| name == "max") {
        Some((_, max)) if refusal.status == 413 && Some(*max) != default_limit => {
            format!("{}_{max}", refusal.id)
        }
        _ => refusal.id.clone(),
    }
}

/// Returns a code or an operation id as the name of a type: `NOT_FOUND` as `NotFound`.
fn pascal_case(id: &str) -> String {
    let words = id.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + &rest.to_ascii_lowercase()
    });
    words.collect()
}

/// Fills the parameters of `path` with an example id.
fn example_path(path: &str) -> String {
    let mut parts = path.split(['{', '}']);
    let mut example = parts.next().unwrap_or_default().to_owned();
    while let (Some(_), Some(literal)) = (parts.next(), parts.next()) {
        example.push_str(EXAMPLE_ID);
        example.push_str(literal);
    }
    example
}
