//! Each kind of change of a document, breaking or not.

#![expect(clippy::unwrap_used, reason = "a pointer without a target fails the test")]

use serde_json::{Value, json};
use testkit::breaking::changes;

fn openapi() -> Value {
    json!({
        "paths": {"/shelves/{id}": {"put": {
            "operationId": "update_shelf",
            "security": [{}, {"person": []}],
            "parameters": [
                {"name": "id", "in": "path", "required": true, "schema": {"type": "string", "format": "uuid"}},
                {"name": "Sort", "in": "query", "schema": {"type": "string", "enum": ["Name", "Size"]}},
            ],
            "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Update"}}}},
            "responses": {
                "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Shelf"}}}},
                "404": {"content": {"application/problem+json": {"schema": {"allOf": [
                    {"$ref": "#/components/schemas/Problem"},
                    {"properties": {"code": {"enum": ["SHELF_NOT_FOUND", "NOT_FOUND"]}}},
                ]}}}},
            },
        }}},
        "components": {"schemas": {
            "Update": {"type": "object", "required": ["Name"], "properties": {
                "Name": {"type": "string", "minLength": 1, "maxLength": 200},
                "Note": {"type": ["string", "null"]},
                "Books": {"type": "array", "maxItems": 10, "items": {"oneOf": [
                    {"type": "object", "required": ["Isbn"], "properties": {"Isbn": {"type": "string"}}},
                    {"type": "object", "required": ["Title"], "properties": {"Title": {"type": "string"}}},
                ]}},
            }},
            "Shelf": {"type": "object", "required": ["Id", "State"], "properties": {
                "Id": {"type": "string", "format": "uuid"},
                "State": {"type": "string", "enum": ["Open", "Full"]},
                "Name": {"type": "string", "maxLength": 200},
                "Above": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/Shelf"}]},
            }},
            "Problem": {"type": "object", "required": ["code"], "properties": {"code": {"type": "string"}}},
        }},
    })
}

fn asyncapi() -> Value {
    json!({
        "channels": {"ShelfFilled": {"address": "library.shelf-filled.v1", "messages": {"ShelfFilled": {
            "payload": {"$ref": "#/components/schemas/ShelfFilled"},
            "headers": {"type": "object", "required": ["ce_id"], "properties": {"ce_id": {"type": "string"}}},
            "bindings": {"kafka": {"key": {"type": "string", "format": "uuid"}}},
        }}}},
        "components": {"schemas": {"ShelfFilled": {"type": "object", "required": ["ShelfId"], "properties": {
            "ShelfId": {"type": "string", "format": "uuid"},
            "Books": {"type": "integer"},
        }}}},
    })
}

/// Returns the document with another value at the pointer. `null` removes the value.
fn with(mut document: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    let parent = document.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}"));
    match parent {
        Value::Array(items) => match key.parse::<usize>() {
            Ok(at) if value.is_null() => _ = items.remove(at),
            Ok(at) => items[at] = value,
            Err(_) => items.push(value),
        },
        _ if value.is_null() => _ = parent.as_object_mut().unwrap().remove(&key).unwrap(),
        _ => parent[&key] = value,
    }
    document
}

fn breaking_changes(document: fn() -> Value, pointer: &str, value: Value) -> Vec<String> {
    changes(&document().to_string(), &with(document(), pointer, value).to_string())
}

const OPERATION: &str = "/paths/~1shelves~1{id}/put";
const SCHEMAS: &str = "/components/schemas";

/// RULE-ALL-064: a document that did not change has no breaking change.
#[test]
fn identical_documents_have_no_breaking_change() {
    assert_eq!(changes(&openapi().to_string(), &openapi().to_string()), [""; 0]);
    assert_eq!(changes(&asyncapi().to_string(), &asyncapi().to_string()), [""; 0]);
}

/// RULE-ALL-064: documents may grow by addition.
#[test]
fn additions_are_not_breaking() {
    let optional = json!({"type": "string", "maxLength": 5});
    for (pointer, value) in [
        ("/paths/~1books".to_owned(), json!({"get": {"responses": {}}})),
        (
            format!("{OPERATION}/parameters/-"),
            json!({"name": "Page", "in": "query", "schema": {"type": "integer"}}),
        ),
        (format!("{OPERATION}/responses/409"), json!({"content": {}})),
        (
            format!(
                "{OPERATION}/responses/404/content/application~1problem+json/schema/allOf/1/properties/code/enum/-"
            ),
            json!("GONE"),
        ),
        (format!("{OPERATION}/security/-"), json!({"service": []})),
        (format!("{OPERATION}/parameters/1/schema/enum/-"), json!("Age")),
        (format!("{SCHEMAS}/Update/properties/Colour"), optional.clone()),
        (format!("{SCHEMAS}/Update/properties/Name/maxLength"), json!(300)),
        (format!("{SCHEMAS}/Update/properties/Name/minLength"), json!(0)),
        (format!("{SCHEMAS}/Update/properties/Name/type"), json!(["string", "null"])),
        (format!("{SCHEMAS}/Update/required"), Value::Null),
        (
            format!("{SCHEMAS}/Update/properties/Books/items/oneOf/-"),
            json!({"type": "object", "required": ["Ean"]}),
        ),
        (format!("{SCHEMAS}/Shelf/properties/Colour"), optional),
        (format!("{SCHEMAS}/Shelf/properties/State/enum/-"), json!("Empty")),
        (format!("{SCHEMAS}/Shelf/properties/Name/maxLength"), json!(100)),
        (format!("{SCHEMAS}/Shelf/required/-"), json!("Name")),
    ] {
        assert_eq!(breaking_changes(openapi, &pointer, value), [""; 0], "{pointer}");
    }
    let more = format!("{SCHEMAS}/ShelfFilled/properties/FilledAt");
    assert_eq!(breaking_changes(asyncapi, &more, json!({"type": "string"})), [""; 0]);
    assert_eq!(breaking_changes(asyncapi, "/channels/ShelfEmptied", json!({"address": "x"})), [""; 0]);
}

/// RULE-ALL-064, RULE-ALL-065: a released operation, parameter, status or code does not disappear.
#[test]
fn removal_from_an_operation_is_breaking() {
    for (part, value, why) in [
        ("", Value::Null, "operation is gone"),
        ("/operationId", json!("change_shelf"), "the operation id has changed"),
        ("/security/0", Value::Null, "{} is no longer accepted"),
        ("/parameters/1", Value::Null, "?Sort: the parameter is gone"),
        ("/parameters/1/name", json!("Order"), "?Sort: the parameter is gone"),
        ("/parameters/1/required", json!(true), "?Sort: is required now"),
        ("/parameters/1/schema/enum/0", Value::Null, "?Sort: \"Name\" is gone"),
        ("/parameters/0/schema/type", json!("integer"), "?id: was"),
        (
            "/parameters/-",
            json!({"name": "Page", "in": "query", "required": true}),
            "?Page is a new required parameter",
        ),
        ("/requestBody/content", json!({"text/csv": {}}), "application/json is gone"),
        ("/responses/200", Value::Null, "200: the status is gone"),
        ("/responses/200/content/application~1json", Value::Null, "application/json is gone"),
        ("/responses/404", Value::Null, "404: the status is gone"),
        (
            "/responses/404/content/application~1problem+json/schema/allOf/1/properties/code/enum/0",
            Value::Null,
            "404/code: \"SHELF_NOT_FOUND\" is gone",
        ),
    ] {
        let breaks = breaking_changes(openapi, &format!("{OPERATION}{part}"), value).join("\n");
        assert!(breaks.contains(why), "{part}: {breaks:?}");
    }
    let removed = breaking_changes(openapi, "/paths/~1shelves~1{id}", Value::Null).join("\n");
    assert!(removed.contains("put /shelves/{id}: the operation is gone"));
}

/// RULE-ALL-064: a request does not require more than the released document.
#[test]
fn stricter_request_is_breaking() {
    for (part, value, why) in [
        ("/Update/required/-", json!("Note"), "/Note: is required now"),
        ("/Update/properties/Note", Value::Null, "/Note: the member is gone"),
        ("/Update/properties/Note/type", json!("string"), "/Note: was"),
        ("/Update/properties/Name/type", json!("integer"), "/Name: was"),
        ("/Update/properties/Name/maxLength", json!(100), "maxLength was 200 and is 100"),
        ("/Update/properties/Name/minLength", json!(2), "minLength was 1 and is 2"),
        ("/Update/properties/Note/maxLength", json!(100), "maxLength was null and is 100"),
        ("/Update/properties/Name/pattern", json!("^a"), "pattern was null"),
        ("/Update/properties/Name/format", json!("uuid"), "format was null"),
        ("/Update/properties/Name/enum", json!(["a"]), "/Name: accepts only some values now"),
        ("/Update/properties/Books/maxItems", json!(5), "maxItems was 10 and is 5"),
        ("/Update/properties/Books/items/oneOf/0", Value::Null, "/Isbn: the member is gone"),
        ("/Update/properties/Books/items/oneOf/1/required/-", json!("Isbn"), "/Isbn: is required now"),
    ] {
        let breaks = breaking_changes(openapi, &format!("{SCHEMAS}{part}"), value).join("\n");
        assert!(breaks.contains(why), "{part}: {breaks:?}");
    }
}

/// RULE-ALL-064: a response does not promise less than the released document.
#[test]
fn weaker_response_is_breaking() {
    for (part, value, why) in [
        ("/Shelf/properties/Name", Value::Null, "/Name: the member is gone"),
        ("/Shelf/properties/Id/type", json!("integer"), "/Id: was"),
        ("/Shelf/properties/Id/type", json!(["string", "null"]), "/Id: was"),
        ("/Shelf/properties/Id/format", Value::Null, "/Id: format was \"uuid\" and is null"),
        ("/Shelf/properties/State/enum/0", Value::Null, "/State: \"Open\" is gone"),
        ("/Shelf/properties/State/enum", Value::Null, "/State: may be any value now"),
        ("/Shelf/properties/Name/maxLength", json!(300), "maxLength was 200 and is 300"),
        ("/Shelf/properties/Above", json!({"type": "string"}), "/Above: was"),
        ("/Shelf/required/0", Value::Null, "/Id: may be missing now"),
    ] {
        let breaks = breaking_changes(openapi, &format!("{SCHEMAS}{part}"), value).join("\n");
        assert!(breaks.contains(why), "{part}: {breaks:?}");
    }
}

/// RULE-ALL-064, RULE-ALL-065: a released topic does not disappear, and its events do not promise
/// less.
#[test]
fn weaker_event_is_breaking() {
    let message = "/channels/ShelfFilled/messages/ShelfFilled";
    for (pointer, value, why) in [
        ("/channels/ShelfFilled".to_owned(), Value::Null, "the topic is gone"),
        ("/channels/ShelfFilled/address".to_owned(), json!("library.shelf-filled.v2"), "the topic is gone"),
        (format!("{SCHEMAS}/ShelfFilled/properties/Books"), Value::Null, "/Books: the member is gone"),
        (format!("{SCHEMAS}/ShelfFilled/properties/Books/type"), json!("string"), "/Books: was"),
        (format!("{SCHEMAS}/ShelfFilled/required/0"), Value::Null, "/ShelfId: may be missing now"),
        (format!("{message}/headers/properties/ce_id"), Value::Null, "/ce_id: the member is gone"),
        (format!("{message}/bindings/kafka/key/format"), Value::Null, "the format of the key has changed"),
    ] {
        let breaks = breaking_changes(asyncapi, &pointer, value).join("\n");
        assert!(breaks.contains(why), "{pointer}: {breaks:?}");
    }
}
