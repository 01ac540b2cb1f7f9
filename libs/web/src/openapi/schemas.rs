//! Walks over the schemas of a document.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use utoipa::openapi::path::{Operation, Paths};
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems, Components, Schema};
use utoipa::openapi::{Content, Ref, RefOr, Response};

use crate::openapi::operations::operations;

/// Calls `change` for each schema of the document: first for a schema, then for the schemas inside.
pub(super) fn for_each_schema(
    paths: &mut Paths,
    components: &mut Components,
    change: &mut impl FnMut(&mut RefOr<Schema>),
) {
    for (_, operation) in paths.paths.values_mut().flat_map(operations) {
        visit_operation(operation, change);
    }
    components.responses.values_mut().for_each(|response| visit_response(response, change));
    components.schemas.values_mut().for_each(|schema| visit(schema, change));
}

fn visit_operation(operation: &mut Operation, change: &mut impl FnMut(&mut RefOr<Schema>)) {
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter
            && let Some(schema) = &mut parameter.schema
        {
            visit(schema, change);
        }
    }
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        body.content.values_mut().for_each(|content| visit_content(content, change));
    }
    operation.responses.responses.values_mut().for_each(|response| visit_response(response, change));
}

fn visit_response(response: &mut RefOr<Response>, change: &mut impl FnMut(&mut RefOr<Schema>)) {
    if let RefOr::T(response) = response {
        response.content.values_mut().for_each(|content| visit_content(content, change));
    }
}

fn visit_content(content: &mut RefOr<Content>, change: &mut impl FnMut(&mut RefOr<Schema>)) {
    if let RefOr::T(content) = content
        && let Some(schema) = &mut content.schema
    {
        visit(schema, change);
    }
}

/// Calls `change` for `schema` and for each schema inside.
pub(super) fn visit(schema: &mut RefOr<Schema>, change: &mut impl FnMut(&mut RefOr<Schema>)) {
    change(schema);
    let RefOr::T(schema) = schema else { return };
    for_each_inner(schema, &mut |inner| visit(inner, change));
}

/// Calls `change` for each schema directly inside `schema`.
pub(super) fn for_each_inner(schema: &mut Schema, change: &mut impl FnMut(&mut RefOr<Schema>)) {
    match schema {
        Schema::Object(object) => {
            object.properties.values_mut().for_each(&mut *change);
            if let Some(AdditionalProperties::RefOr(values)) = object.additional_properties.as_deref_mut() {
                change(values);
            }
            if let Some(content) = &mut object.content_schema {
                change(content);
            }
        }
        Schema::Array(array) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                change(items);
            }
        }
        Schema::OneOf(choice) => choice.items.iter_mut().for_each(change),
        Schema::AllOf(whole) => whole.items.iter_mut().for_each(change),
        Schema::AnyOf(choice) => choice.items.iter_mut().for_each(change),
        _ => {}
    }
}

/// Returns the names of the components that responses refer to, directly or through other ones.
pub(super) fn names_in_responses(paths: &mut Paths, components: &Components) -> BTreeSet<String> {
    let responses = paths.paths.values_mut().flat_map(operations);
    let responses: Vec<_> = responses.map(|(_, operation)| json!(operation.responses)).collect();
    names_in(json!([responses, components.responses]), components)
}

/// Returns the names of the components that requests refer to, directly or through other ones.
pub(super) fn names_in_requests(paths: &mut Paths, components: &Components) -> BTreeSet<String> {
    let requests = paths.paths.values_mut().flat_map(operations);
    let requests: Vec<_> =
        requests.map(|(_, operation)| json!([operation.parameters, operation.request_body])).collect();
    names_in(json!(requests), components)
}

/// Returns the names of the components that `part` refers to, directly or through other ones.
fn names_in(part: Value, components: &Components) -> BTreeSet<String> {
    let mut unread = vec![part];
    let mut found = BTreeSet::new();
    while let Some(text) = unread.pop().map(|part| part.to_string()) {
        for (name, schema) in &components.schemas {
            let reference = Ref::from_schema_name(name).ref_location;
            if text.contains(&format!("\"{reference}\"")) && found.insert(name.clone()) {
                unread.push(json!(schema));
            }
        }
    }
    found
}

/// Returns the name of the component that `schema` refers to.
pub(super) fn referenced(schema: &RefOr<Schema>) -> Option<&str> {
    match schema {
        RefOr::Ref(reference) => reference.ref_location.strip_prefix("#/components/schemas/"),
        RefOr::T(_) => None,
    }
}

/// Returns true for the schema of `null`.
pub(super) fn is_null(schema: &RefOr<Schema>) -> bool {
    json!(schema)["type"] == "null"
}

/// Returns true for the media types of JSON.
pub(super) fn is_json(media_type: &str) -> bool {
    media_type.ends_with("json")
}
