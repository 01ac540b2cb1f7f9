//! Finds parameters, members and channels of a document without a description, operations without
//! their callers, and examples that only repeat a name.

use serde_json::Value;

use crate::breaking::{list, members};

/// Returns the position of each fault of an OpenAPI or an AsyncAPI document: a parameter, a member
/// or a channel without a description, an operation of users without its callers, and an example
/// that only repeats the name of its member.
pub(crate) fn faults(document: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, item) in members(&document["paths"]) {
        for (method, operation) in members(item) {
            for parameter in list(&operation["parameters"]) {
                if parameter["description"].is_null() {
                    faults.push(format!("{method} {path}: {} has no description", parameter["name"]));
                }
            }
            let is_for_users = list(&operation["security"]).any(|scheme| !scheme["person"].is_null());
            if is_for_users && operation["x-callers"].is_null() && operation["x-permission"].is_null() {
                faults.push(format!("{method} {path} does not say who may call it"));
            }
        }
    }
    for (name, channel) in members(&document["channels"]) {
        if !channel["description"].is_string() {
            faults.push(format!("the channel {name} has no description"));
        }
    }
    undescribed_members(document, document, "", &mut faults);
    repeated_names(document, "", &mut faults);
    faults
}

/// Adds each property that has no description, neither its own nor that of the component that it
/// refers to.
fn undescribed_members(document: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    for (key, inner) in members(value).filter(|(key, _)| !key.starts_with("example")) {
        let at = format!("{at}/{key}");
        if key == "properties" {
            for (name, member) in members(inner) {
                if !is_described(document, member) {
                    faults.push(format!("{at}/{name} has no description"));
                }
                undescribed_members(document, member, &format!("{at}/{name}"), faults);
            }
        } else {
            undescribed_members(document, inner, &at, faults);
        }
    }
    for inner in list(value) {
        undescribed_members(document, inner, at, faults);
    }
}

fn is_described(document: &Value, member: &Value) -> bool {
    let target = member["$ref"].as_str().and_then(|target| document.pointer(target.trim_start_matches('#')));
    // A tag of a union has one value, which is its description.
    let is_tag = list(&member["enum"]).count() == 1;
    is_tag || [Some(member), target].into_iter().flatten().any(|schema| schema["description"].is_string())
}

/// Adds each text that is the name of its member.
fn repeated_names(value: &Value, name: &str, faults: &mut Vec<String>) {
    if value.as_str().is_some_and(|text| text == name && name.starts_with(char::is_uppercase)) {
        faults.push(format!("the example of {name} is its name"));
    }
    for (key, inner) in members(value) {
        repeated_names(inner, key, faults);
    }
    for inner in list(value) {
        repeated_names(inner, name, faults);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::faults;

    /// RULE-ALL-110: a parameter or member without a description is reported.
    #[test]
    fn missing_description_is_reported() {
        let shelf = |title: serde_json::Value, description: serde_json::Value| {
            json!({
                "paths": {"/shelves": {"get": {"parameters": [{"name": "Page", "description": description}]}}},
                "components": {"schemas": {
                    "Shelf": {"properties": {"Title": title, "Book": {"$ref": "#/components/schemas/Book"}}},
                    "Book": {"type": "object", "description": "A book."},
                }},
            })
        };
        let described = json!({"type": "string", "description": "The title."});
        assert_eq!(faults(&shelf(described.clone(), json!("The page."))), [""; 0]);
        assert_eq!(faults(&shelf(described, json!(null))).len(), 1);
        assert_eq!(faults(&shelf(json!({"type": "string"}), json!("The page."))).len(), 1);
    }

    /// RULE-ALL-114: an operation that does not say who may call it is reported.
    #[test]
    fn missing_callers_are_reported() {
        let shelf = |callers: serde_json::Value| {
            let read = json!({"security": [{"person": []}], "x-callers": callers});
            json!({"paths": {"/shelves": {"get": read}}})
        };
        assert_eq!(faults(&shelf(json!("every user"))), [""; 0]);
        assert_eq!(faults(&shelf(json!(null))).len(), 1);
    }

    /// RULE-ALL-115: a channel and a member of an event without a description are reported.
    #[test]
    fn undescribed_event_is_reported() {
        let event = |about: serde_json::Value| {
            json!({
                "channels": {"BookAdded": {"address": "platform.shelves.book-added.v1", "description": about}},
                "components": {"schemas": {"BookAdded": {"properties": {
                    "Title": {"type": "string", "description": about},
                }}}},
            })
        };
        assert_eq!(faults(&event(json!("A book was added."))), [""; 0]);
        assert_eq!(faults(&event(json!(null))).len(), 2);
    }

    /// RULE-ALL-110: an example that repeats the name of its member is reported.
    #[test]
    fn example_that_is_a_name_is_reported() {
        let book = |title: &str| json!({"example": {"Items": [{"Title": title}]}});
        assert_eq!(faults(&book("Homes near the river")), [""; 0]);
        assert_eq!(faults(&book("Title")).len(), 1);
    }
}
