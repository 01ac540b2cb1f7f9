//! Examples for API documents, generated from their schemas.

use serde_json::{Map, Value, json};

/// Returns a valid value of `schema`: the example of the schema, or else a typical value.
/// References point into `document`.
pub fn example_of(schema: &Value, document: &Value) -> Value {
    example(schema, document, "Text")
}

/// Returns an example whose texts and ids are derived from `name`, the name of the member. So the
/// ids of different members differ.
fn example(schema: &Value, document: &Value, name: &str) -> Value {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null);
        return example(target, document, name);
    }
    let examples = [
        &schema["examples"][0],
        &schema["example"],
        &schema["const"],
        &schema["default"],
        &schema["enum"][0],
    ];
    if let Some(example) = examples.into_iter().find(|example| !example.is_null()) {
        return example.clone();
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let parts = parts.iter().map(|part| example(part, document, name));
        return parts.chain([members(schema, document)]).fold(json!({}), merge);
    }
    let choices = schema["oneOf"].as_array().or(schema["anyOf"].as_array()).into_iter().flatten();
    if let Some(choice) = choices.clone().find(|choice| choice["type"] != "null") {
        return example(choice, document, name);
    }
    match kind(schema) {
        "object" => members(schema, document),
        "array" => json!([example(&schema["items"], document, name)]),
        "integer" => json!(schema["minimum"].as_i64().unwrap_or(1)),
        "number" => json!(schema["minimum"].as_f64().unwrap_or(1.0)),
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

/// Returns the type of `schema`, without `null`.
fn kind(schema: &Value) -> &str {
    let kinds = schema["type"].as_array().into_iter().flatten().chain([&schema["type"]]);
    kinds.filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or_default()
}

fn members(schema: &Value, document: &Value) -> Value {
    let properties = schema["properties"].as_object().into_iter().flatten();
    Value::Object(
        properties
            .map(|(name, schema)| (name.clone(), example(schema, document, name)))
            .collect::<Map<_, _>>(),
    )
}

fn merge(mut all: Value, part: Value) -> Value {
    if let (Value::Object(all), Value::Object(part)) = (&mut all, part) {
        all.extend(part);
    }
    all
}

/// Returns an id in the form of a `UUIDv7`. Equal names have equal ids.
fn uuid_of(name: &str) -> String {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("01932b4e-7c1a-7d3e-9f00-{:012x}", hash >> 16)
}
