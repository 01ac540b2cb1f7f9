//! The streams of Server-Sent Events in an OpenAPI document, for the AsyncAPI document.

use std::collections::BTreeMap;

use messaging::HttpStream;
use serde_json::{Value, json};

const SCHEMAS: &str = "#/components/schemas/";

/// Returns the streams of an OpenAPI document: the operations whose response 200 has the media type
/// `text/event-stream` and a schema that refers to a union of events.
pub(crate) fn streams(api: &Value) -> Vec<HttpStream> {
    let paths = api["paths"].as_object().into_iter().flatten();
    let operations =
        paths.flat_map(|(path, item)| item.as_object().into_iter().flatten().map(move |(_, o)| (path, o)));
    operations.filter_map(|(path, operation)| stream(api, path, operation)).collect()
}

fn stream(api: &Value, path: &str, operation: &Value) -> Option<HttpStream> {
    let body = operation.pointer("/responses/200/content/text~1event-stream/schema")?;
    let union = &resolved(api, resolved(api, body).pointer("/contentSchema/items")?);
    let mapping = union.pointer("/discriminator/mapping")?.as_object()?;
    let name = |target: &Value| target.as_str()?.strip_prefix(SCHEMAS).map(str::to_owned);
    let events: Vec<_> = mapping.values().filter_map(name).collect();
    let mut schemas = BTreeMap::new();
    let mut unread = events.clone();
    while let Some(name) = unread.pop() {
        let schema = &api["components"]["schemas"][&name];
        if !schemas.contains_key(&name) && !schema.is_null() {
            references(schema, &mut unread);
            schemas.insert(name, for_asyncapi(schema.clone()));
        }
    }
    let text = |member: &str| operation[member].as_str().unwrap_or_default().to_owned();
    Some(HttpStream {
        name: text("operationId"),
        path: path.to_owned(),
        title: text("summary"),
        description: text("description"),
        events,
        schemas,
    })
}

fn resolved<'a>(api: &'a Value, schema: &'a Value) -> &'a Value {
    let target = schema["$ref"].as_str().and_then(|target| api.pointer(target.trim_start_matches('#')));
    target.unwrap_or(schema)
}

/// Adds the names of the components that a schema refers to.
fn references(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            let target = members.get("$ref").and_then(Value::as_str);
            names.extend(target.and_then(|target| target.strip_prefix(SCHEMAS)).map(str::to_owned));
            members.values().for_each(|member| references(member, names));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, names)),
        _ => {}
    }
}

/// Replaces each discriminator by the name of its property, as AsyncAPI requires.
fn for_asyncapi(mut schema: Value) -> Value {
    if let Some(property) = schema.pointer("/discriminator/propertyName").cloned() {
        schema["discriminator"] = json!(property);
    }
    schema
}
