//! Examples for API documents, generated from their schemas.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The hand-written examples by the name of their member, as values in JSON. A name such as
/// `Step.Name` is the member of one schema, and has precedence over everything else.
static NAMED: LazyLock<HashMap<&str, Value>> = LazyLock::new(|| {
    let lines = include_str!("examples.txt").lines().filter_map(|line| line.split_once(": "));
    lines.filter_map(|(name, value)| Some((name, serde_json::from_str(value).ok()?))).collect()
});

/// Returns a valid value of `schema`: the example of the schema, or else a typical value.
/// References point into `document`.
pub fn example_of(schema: &Value, document: &Value) -> Value {
    example(schema, document, "", "Text")
}

/// Returns an example for the member `name` inside the component `owner`. Ids are derived from the
/// name, so the ids of different members differ.
fn example(schema: &Value, document: &Value, owner: &str, name: &str) -> Value {
    if let Some(own) = NAMED.get(&*format!("{owner}.{name}")) {
        return own.clone();
    }
    let named = NAMED.get(name);
    if named.is_some_and(Value::is_null) && allows_null(schema) {
        return Value::Null;
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null);
        let owner = reference.rsplit('/').next().unwrap_or_default();
        return example(target, document, owner, name);
    }
    let examples = [
        &schema["examples"][0],
        &schema["example"],
        &schema["const"],
        &schema["enum"][0],
        named.filter(|named| fits(named, schema)).unwrap_or(&Value::Null),
        &schema["default"],
    ];
    if let Some(example) = examples.into_iter().find(|example| !example.is_null()) {
        return example.clone();
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let parts = parts.iter().map(|part| example(part, document, owner, name));
        return parts.chain([members(schema, document, owner)]).fold(json!({}), merge);
    }
    let choices = schema["oneOf"].as_array().or(schema["anyOf"].as_array()).into_iter().flatten();
    if let Some(choice) = choices.clone().find(|choice| choice["type"] != "null") {
        return example(choice, document, owner, name);
    }
    match kind(schema) {
        "object" => members(schema, document, owner),
        "array" => json!([example(&schema["items"], document, owner, name)]),
        "integer" => json!(schema["minimum"].as_i64().unwrap_or(1).max(1)),
        "number" => json!(schema["minimum"].as_f64().unwrap_or(1.0).max(1.0)),
        "boolean" => json!(true),
        "string" => match schema["format"].as_str() {
            Some("uuid") => json!(uuid_of(name)),
            Some("date-time") => json!("2026-05-04T09:30:00Z"),
            Some("date") => json!("2026-05-04"),
            _ => json!(name),
        },
        _ => json!({}),
    }
}

/// Returns true if a schema permits the value by its type and its limits.
fn fits(value: &Value, schema: &Value) -> bool {
    let is_of_kind = match kind(schema) {
        "string" => value.as_str().is_some_and(|text| has_format(text, &schema["format"])),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        _ => false,
    };
    let length = value.as_str().and_then(|text| u32::try_from(text.chars().count()).ok()).map(f64::from);
    let is_below = |size: Option<f64>, limit: &str| {
        size.zip(schema[limit].as_f64()).is_none_or(|(size, limit)| size <= limit)
    };
    let is_above = |size: Option<f64>, limit: &str| {
        size.zip(schema[limit].as_f64()).is_none_or(|(size, limit)| size >= limit)
    };
    is_of_kind
        && is_below(length, "maxLength")
        && is_above(length, "minLength")
        && is_below(value.as_f64(), "maximum")
        && is_above(value.as_f64(), "minimum")
}

/// Returns true for a time if the format is `date-time`, and for any other text if there is no
/// format.
fn has_format(text: &str, format: &Value) -> bool {
    let is_time = OffsetDateTime::parse(text, &Rfc3339).is_ok();
    format.is_null() && !is_time || format == "date-time" && is_time
}

/// Returns true if `null` is one of the types or choices of a schema.
fn allows_null(schema: &Value) -> bool {
    let choices = schema["oneOf"].as_array().into_iter().flatten().map(|choice| &choice["type"]);
    let kinds = schema["type"].as_array().into_iter().flatten();
    choices.chain(kinds).any(|kind| kind == "null")
}

/// Returns the type of `schema`, without `null`.
fn kind(schema: &Value) -> &str {
    let kinds = schema["type"].as_array().into_iter().flatten().chain([&schema["type"]]);
    kinds.filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or_default()
}

fn members(schema: &Value, document: &Value, owner: &str) -> Value {
    let properties = schema["properties"].as_object().into_iter().flatten();
    Value::Object(
        properties
            .map(|(name, schema)| (name.clone(), example(schema, document, owner, name)))
            .collect::<Map<_, _>>(),
    )
}

fn merge(mut all: Value, part: Value) -> Value {
    if let (Value::Object(all), Value::Object(part)) = (&mut all, part) {
        all.extend(part);
    }
    all
}

/// Returns an id in the form of a `UUIDv7`. Its last group is a part of the FNV-1a hash of the
/// name, so equal names have equal ids.
fn uuid_of(name: &str) -> String {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("01932b4e-7c1a-7d3e-9f00-{:012x}", hash >> 16)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::example_of;

    /// An example of a member of one schema has precedence over the values of its type.
    #[test]
    fn example_of_one_schema_has_precedence() {
        let time = json!({"type": ["string", "null"], "format": "date-time"});
        let document = json!({"components": {"schemas": {
            "Status": {"type": "string", "enum": ["Draft", "Published"]},
            "PostView": {"type": "object", "properties": {
                "PublishAt": time,
                "Status": {"$ref": "#/components/schemas/Status"},
            }},
            "Shelf": {"type": "object", "properties": {"Status": {"$ref": "#/components/schemas/Status"}}},
        }}});
        let example =
            |name: &str| example_of(&json!({"$ref": format!("#/components/schemas/{name}")}), &document);
        assert_eq!(example("PostView"), json!({"PublishAt": null, "Status": "Published"}));
        assert_eq!(example("Shelf"), json!({"Status": "Draft"}));
    }
}
