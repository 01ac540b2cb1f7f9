//! The OpenAPI document of a service, from the routes that serve it. What an operation does not say of
//! itself follows from its shape and from the port that it is behind.

use std::collections::BTreeMap;

use actix_web::App;
use runtime::example_of;
use serde_json::{Value, json};
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{AllOfBuilder, Components, ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ContactBuilder, Content, ContentBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Paths,
    Ref, RefOr, ServerBuilder,
};
use utoipa::{PartialSchema, ToSchema};
use utoipa_actix_web::AppExt;
use values::Invalid;

use crate::listener::{Area, Callers, Listener};
use crate::openapi::operations::operations;
use crate::openapi::refuses;
use crate::request::json::DEFAULT_LIMIT;
use crate::response::problem::{FieldError, Problem};
use crate::response::refusal::Refusal;
use crate::response::render::ProblemBody;

/// A contract grows by addition; what breaks it is a new path beside the old one, `/api/v2/…`.
const VERSION: &str = "1.0.0";

const PROBLEM: &str = "application/problem+json";

/// What an operation names whose callers sign what they send (`security(("signature" = []))`), instead of showing a token.
const SIGNED: &str = "signature";

/// In examples.
const ID: &str = "01932b4e-7c1a-7d3e-9f00-5c0fa8b1d2e3";
const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// The document of the operations behind `listeners`.
pub fn describe(area: &Area, listeners: &[Listener]) -> OpenApi {
    let mut components = Components::new();
    let mut schemas = vec![(ProblemBody::name().into_owned(), ProblemBody::schema())];
    ProblemBody::schemas(&mut schemas);
    components.schemas.extend(schemas);
    let mut paths = Paths::new();
    for listener in listeners {
        let (_, mut declared) = App::new().into_utoipa_app().configure(listener.routes).split_for_parts();
        components.schemas.extend(declared.components.unwrap_or_default().schemas);
        components.add_security_scheme(scheme(listener.callers), token(listener.callers));
        for (path, item) in &mut declared.paths.paths {
            for (_, operation) in operations(item) {
                if is_signed(operation) {
                    components.add_security_scheme(SIGNED, signature());
                }
                complete(operation, path, listener.callers, area, &mut components);
            }
        }
        paths.merge(declared.paths);
    }
    add_examples(&mut paths, &components);
    drop_unused(&paths, &mut components);
    let tags = listeners.iter().flat_map(|listener| listener.tags);
    let tags = tags.map(|(name, about)| TagBuilder::new().name(*name).description(Some(*about)).build());
    let server = ServerBuilder::new().url("/").description(Some("Wherever this document is served"));
    let info = InfoBuilder::new()
        .title(format!("Platform: {}", area.name))
        .version(VERSION)
        .description(Some(format!(
            "What {} answers. Problems (RFC 9457) are told apart by their `code`; their words follow `Accept-Language`.",
            area.name
        )))
        .contact(Some(ContactBuilder::new().name(Some(format!("The maintainers of {}", area.name))).build()))
        .license(Some(LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build()));
    OpenApiBuilder::new()
        .info(info.build())
        .servers(Some([server.build()]))
        .tags(Some(tags.collect::<Vec<_>>()))
        .paths(paths)
        .components(Some(components))
        .build()
}

/// The document as `contracts/` keeps it.
///
/// # Errors
/// When it cannot be written as YAML.
pub fn to_yaml(api: &OpenApi) -> anyhow::Result<String> {
    Ok(api.to_yaml()?)
}

fn scheme(callers: Callers) -> &'static str {
    match callers {
        Callers::People => "person",
        Callers::Services => "service",
    }
}

fn token(callers: Callers) -> SecurityScheme {
    let about = match callers {
        Callers::People => "A person's access token.",
        Callers::Services => {
            "The machine token of a service, which must be the one that the operation is for."
        }
    };
    let http = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT");
    SecurityScheme::Http(http.description(Some(about)).build())
}

fn signature() -> SecurityScheme {
    let about = "A JWT over the body's SHA-256, signed by a secret that the caller shares.";
    SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description("Authorization", about)))
}

fn is_signed(operation: &Operation) -> bool {
    let signed = SecurityRequirement::new(SIGNED, [""; 0]);
    operation.security.iter().flatten().any(|one| *one == signed)
}

/// Adds who may call, and every refusal.
fn complete(
    operation: &mut Operation,
    path: &str,
    callers: Callers,
    area: &Area,
    components: &mut Components,
) {
    // An operation that lets guests in has said so, by an empty requirement.
    if !is_signed(operation) {
        operation.security.get_or_insert_default().push(SecurityRequirement::new(scheme(callers), [""; 0]));
    }
    let mut by_status: BTreeMap<u16, Vec<Refusal>> = BTreeMap::new();
    let own = refuses::take(&mut operation.extensions);
    for refusal in own.into_iter().chain(implied(operation, callers)) {
        let of_status = by_status.entry(refusal.status).or_default();
        let code = |refusal: &Refusal| area.code(&refusal.id, refusal.is_common);
        // An area's own words are better than the common ones of the same code.
        if of_status.iter().all(|other| code(other) != code(&refusal)) {
            of_status.push(refusal);
        }
    }
    for (status, refusals) in by_status {
        let described = || problem_response(&refusals, path, area);
        let response = match &refusals[..] {
            // The same everywhere, so it is written once.
            [only] => {
                components.responses.entry(only.id.clone()).or_insert_with(|| described().into());
                RefOr::Ref(Ref::from_response_name(only.id.clone()))
            }
            _ => described().into(),
        };
        operation.responses.responses.insert(status.to_string(), response);
    }
}

/// What every operation of this shape can answer: what its extractors and the service's parts refuse.
fn implied(operation: &Operation, callers: Callers) -> Vec<Refusal> {
    let mut problems = vec![Problem::internal(&std::fmt::Error), Problem::unavailable(&"")];
    let is_open = operation.security.iter().flatten().any(|one| *one == SecurityRequirement::default());
    if !is_open {
        problems.push(Problem::unauthorized());
    }
    match callers {
        Callers::People => problems.push(Problem::rate_limited(std::time::Duration::from_secs(1))),
        Callers::Services => problems.push(Problem::forbidden()),
    }
    let refused = |field: &str, code| {
        Problem::validation_failed(vec![FieldError { field: field.to_owned(), invalid: Invalid::new(code) }])
    };
    let mut parameters = operation.parameters.iter().flatten().filter_map(|parameter| match parameter {
        RefOr::T(parameter) => Some(parameter),
        RefOr::Ref(_) => None,
    });
    if parameters.clone().any(|parameter| parameter.parameter_in == ParameterIn::Path) {
        problems.push(Problem::not_found());
    }
    if let Some(query) = parameters.find(|parameter| parameter.parameter_in == ParameterIn::Query) {
        problems.push(refused(&format!("/{}", query.name), "unknown_value"));
    }
    if operation.request_body.is_some() {
        problems.push(refused("", "malformed"));
        problems.push(Problem::request_timeout());
        problems.push(Problem::payload_too_large(DEFAULT_LIMIT));
        problems.push(Problem::unsupported_media_type());
    }
    problems.iter().map(|problem| problem.details().into()).collect()
}

/// A body that may be left out is none then, and not `null`.
fn without_null(content: &mut RefOr<Content>) {
    let RefOr::T(content) = content else { return };
    let Some(RefOr::T(Schema::OneOf(one_of))) = &content.schema else { return };
    let is_null = |item: &&RefOr<Schema>| json!(item)["type"] == "null";
    if let Some(body) = one_of.items.iter().find(|item| !is_null(item))
        && one_of.items.iter().any(|item| is_null(&item))
    {
        content.schema = Some(body.clone());
    }
}

fn problem_response(refusals: &[Refusal], path: &str, area: &Area) -> Response {
    let language = area.messages.english();
    let mut content = ContentBuilder::new();
    let (mut codes, mut titles) = (Vec::new(), Vec::new());
    for refusal in refusals {
        let body = ProblemBody::new(refusal, area, &language, &filled(path), Some(TRACE_ID.to_owned()));
        let value = serde_json::to_value(&body).ok();
        let example = ExampleBuilder::new().summary(body.title.clone()).value(value);
        content = content.examples_from_iter([(body.code.clone(), example)]);
        codes.push(body.code);
        titles.push(body.title);
    }
    let code = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(codes));
    let further = refusals.iter().filter_map(|refusal| refusal.member.as_ref());
    let narrowed = further.fold(ObjectBuilder::new().property("code", code), |narrowed, (name, _)| {
        narrowed.property(name, ObjectBuilder::new().schema_type(Type::String))
    });
    let schema = AllOfBuilder::new().item(Ref::from_schema_name(ProblemBody::name())).item(narrowed);
    let header = |about: &str| {
        HeaderBuilder::new()
            .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
            .description(Some(about))
    };
    let mut response = ResponseBuilder::new()
        .description(titles.join(". "))
        .content(PROBLEM, content.schema(Some(schema)).build());
    if refusals.iter().any(|refusal| refusal.has_retry_after) {
        response = response.header("Retry-After", header("Seconds to wait").build());
    }
    if refusals.iter().any(|refusal| refusal.has_allow) {
        response = response.header("Allow", header("The methods that are allowed").build());
    }
    if refusals.iter().any(|refusal| refusal.status == 401) {
        response = response.header("WWW-Authenticate", header("`Bearer`").build());
    }
    response.build()
}

/// A path as it may be asked for.
fn filled(path: &str) -> String {
    let mut parts = path.split(['{', '}']);
    let mut filled = parts.next().unwrap_or_default().to_owned();
    while let (Some(_), Some(literal)) = (parts.next(), parts.next()) {
        filled.push_str(ID);
        filled.push_str(literal);
    }
    filled
}

/// Drops schemas that nothing refers to, such as those that a page of them holds in itself.
fn drop_unused(paths: &Paths, components: &mut Components) {
    let mut before = usize::MAX;
    while components.schemas.len() < before {
        before = components.schemas.len();
        let text = json!([paths, components]).to_string();
        components.schemas.retain(|name, _| text.contains(&format!("\"#/components/schemas/{name}\"")));
    }
}

/// Each body that has no example gets the one that its schema makes.
fn add_examples(paths: &mut Paths, components: &Components) {
    let schemas = json!({ "components": components });
    let add = |content: &mut RefOr<Content>| {
        if let RefOr::T(content) = content
            && content.example.is_none()
            && content.examples.is_empty()
        {
            let schema: Value = json!(content.schema);
            content.example = Some(example_of(&schema, &schemas));
        }
    };
    for (_, operation) in paths.paths.values_mut().flat_map(operations) {
        if let Some(RefOr::T(body)) = &mut operation.request_body {
            body.description.get_or_insert_with(|| format!("At most {} KiB.", DEFAULT_LIMIT / 1024));
            body.content.values_mut().for_each(without_null);
            body.content.values_mut().for_each(add);
        }
        for response in operation.responses.responses.values_mut() {
            if let RefOr::T(response) = response {
                response.content.values_mut().for_each(add);
            }
        }
    }
}
