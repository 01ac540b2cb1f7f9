//! Enums of responses, which may get further values.

use std::collections::BTreeSet;

use serde_json::Value;
use utoipa::openapi::path::Paths;
use utoipa::openapi::schema::{Components, Object, Schema};
use utoipa::openapi::{Ref, RefOr};

use crate::openapi::schemas::{names_in_responses, visit};

/// The extension that lists the known values of an enum that may get further ones.
const OPEN_ENUM_EXTENSION: &str = "x-extensible-enum";

/// Marks each enum that responses have. An enum of requests alone accepts only its values.
pub(super) fn mark_open_enums(paths: &mut Paths, components: &mut Components) {
    let variants = variants(components);
    for name in names_in_responses(paths, components) {
        let is_variant = variants.contains(&Ref::from_schema_name(&name).ref_location);
        if let Some(schema) = components.schemas.get_mut(&name) {
            visit(schema, &mut |schema| {
                if let RefOr::T(Schema::Object(object)) = schema {
                    mark(object, is_variant);
                }
            });
        }
    }
}

/// Returns the references to the variants of unions.
fn variants(components: &Components) -> BTreeSet<String> {
    let unions = components.schemas.values().filter_map(|schema| match schema {
        RefOr::T(Schema::OneOf(choice)) => choice.discriminator.as_ref(),
        _ => None,
    });
    unions.flat_map(|discriminator| discriminator.mapping.values().cloned()).collect()
}

/// Marks an enum, unless it is the tag of a variant, which has one value only.
fn mark(object: &mut Object, is_in_variant: bool) {
    let least = if is_in_variant { 2 } else { 1 };
    if let Some(values) = object.enum_values.as_ref().filter(|values| values.len() >= least) {
        let values = Value::from(values.clone());
        object.extensions.get_or_insert_default().insert(OPEN_ENUM_EXTENSION.to_owned(), values);
    }
}
