//! The OpenAPI document of a service, generated from its routes.
//!
//! An operation declares its parameters, bodies and refusals. The document derives the security and
//! the common problems from these declarations and from the listener.

use actix_web::App;
use runtime::example_of;
use serde_json::{Value, json};
use utoipa::openapi::schema::{Components, Schema};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ContactBuilder, Content, Info, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Paths, RefOr,
    ServerBuilder,
};
use utoipa::{PartialSchema, ToSchema};
use utoipa_actix_web::AppExt;

use crate::listener::{Listener, ServiceInfo};
use crate::openapi::caching::add_caching;
use crate::openapi::descriptions::add_descriptions;
use crate::openapi::enums::mark_open_enums;
use crate::openapi::idempotency::add_idempotency_key;
use crate::openapi::names::name_schemas;
use crate::openapi::operations::operations;
use crate::openapi::problem_responses::add_problem_responses;
use crate::openapi::schemas::is_json;
use crate::openapi::security::{add_security, add_token_scheme, describe_callers};
use crate::openapi::whole_responses::require_nullable_members;
use crate::request::json::DEFAULT_LIMIT;
use crate::response::render::ProblemBody;

/// Describes the operations of `listeners`.
pub fn describe(service: &ServiceInfo, listeners: &[Listener]) -> OpenApi {
    let mut components = Components::new();
    let mut schemas = vec![(ProblemBody::name().into_owned(), ProblemBody::schema())];
    ProblemBody::schemas(&mut schemas);
    components.schemas.extend(schemas);
    let mut paths = Paths::new();
    for listener in listeners {
        let (_, mut declared) = App::new().into_utoipa_app().configure(listener.routes).split_for_parts();
        components.schemas.extend(declared.components.unwrap_or_default().schemas);
        add_token_scheme(&mut components, listener.callers);
        for (path, item) in &mut declared.paths.paths {
            for (method, operation) in operations(item) {
                add_security(operation, listener.callers, &mut components);
                describe_callers(operation, listener.callers);
                add_idempotency_key(operation, &method, listener.callers);
                add_caching(operation);
                add_problem_responses(operation, &method, path, listener.callers, service, &mut components);
            }
        }
        paths.merge(declared.paths);
    }
    name_schemas(&mut paths, &mut components);
    require_nullable_members(&mut paths, &mut components);
    add_descriptions(&mut paths, &mut components);
    add_examples(&mut paths, &components);
    drop_unused(&paths, &mut components);
    mark_open_enums(&mut paths, &mut components);
    let tags = listeners.iter().flat_map(|listener| listener.tags);
    let tags =
        tags.map(|(name, description)| TagBuilder::new().name(*name).description(Some(*description)).build());
    let server = ServerBuilder::new().url("/").description(Some("The host that serves this document"));
    OpenApiBuilder::new()
        .info(info(service))
        .servers(Some([server.build()]))
        .tags(Some(tags.collect::<Vec<_>>()))
        .paths(paths)
        .components(Some(components))
        .build()
}

/// Serializes the document for `contracts/`.
pub fn to_yaml(api: &OpenApi) -> anyhow::Result<String> {
    Ok(api.to_yaml()?)
}

fn info(service: &ServiceInfo) -> Info {
    let description = format!(
        "The HTTP API of {}. Errors are problems (RFC 9457) with a stable `code`. \
         Their messages are localized by `Accept-Language`. Responses may get further members, and \
         enums of responses (`x-extensible-enum`) further values, so a client ignores members and \
         accepts values that it does not know. A breaking change gets a new path.",
        service.name
    );
    let contact = ContactBuilder::new().name(Some(format!("The maintainers of {}", service.name)));
    let license = LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0"));
    InfoBuilder::new()
        .title(format!("Platform: {}", service.name))
        .version(service.version)
        .description(Some(description))
        .contact(Some(contact.build()))
        .license(Some(license.build()))
        .build()
}

/// Drops schemas without references. An example is the content of a variant: another schema, with
/// the content and the tag, has replaced it.
fn drop_unused(paths: &Paths, components: &mut Components) {
    let mut before = usize::MAX;
    while components.schemas.len() < before {
        before = components.schemas.len();
        let text = json!([paths, components]).to_string();
        components.schemas.retain(|name, _| text.contains(&format!("\"#/components/schemas/{name}\"")));
    }
}

/// Adds an example to each body in JSON without one, and describes request bodies without a
/// description by the default limit. Another body has only the example that it declares.
fn add_examples(paths: &mut Paths, components: &Components) {
    let schemas = json!({ "components": components });
    let add = |(media_type, content): (&String, &mut RefOr<Content>)| {
        if let RefOr::T(content) = content
            && content.example.is_none()
            && content.examples.is_empty()
        {
            let schema: Value = json!(content.schema);
            let is_json = is_json(media_type);
            content.example = if is_json {
                Some(example_of(&schema, &schemas))
            } else {
                declared_example(&schema, &schemas)
            };
        }
    };
    for (_, operation) in paths.paths.values_mut().flat_map(operations) {
        if let Some(RefOr::T(body)) = &mut operation.request_body {
            body.description.get_or_insert_with(|| format!("At most {} KiB.", DEFAULT_LIMIT / 1024));
            body.content.values_mut().for_each(drop_null);
            body.content.iter_mut().for_each(add);
        }
        for response in operation.responses.responses.values_mut() {
            if let RefOr::T(response) = response {
                response.content.iter_mut().for_each(add);
            }
        }
    }
}

/// Returns the example that a schema, or the component that it refers to, declares.
fn declared_example(schema: &Value, schemas: &Value) -> Option<Value> {
    let target = schema["$ref"].as_str().and_then(|target| schemas.pointer(target.trim_start_matches('#')));
    target.unwrap_or(schema)["examples"].get(0).cloned()
}

/// Drops `null` from the schema of an optional body. Callers omit the body instead.
fn drop_null(content: &mut RefOr<Content>) {
    let RefOr::T(content) = content else { return };
    let Some(RefOr::T(Schema::OneOf(one_of))) = &content.schema else { return };
    let is_null = |item: &&RefOr<Schema>| json!(item)["type"] == "null";
    if let Some(body) = one_of.items.iter().find(|item| !is_null(item))
        && one_of.items.iter().any(|item| is_null(&item))
    {
        content.schema = Some(body.clone());
    }
}
