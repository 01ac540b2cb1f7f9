use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::{Contract, Published};
use crate::response::Response;

const DOCUMENT: &str = r"
paths:
  /shelves/new:
    post: {responses: {'204': {description: created}}}
  /shelves/{id}:
    get:
      responses:
        '200': {content: {application/json: {schema: {$ref: '#/components/schemas/Shelf'}}}}
        '404': {$ref: '#/components/responses/NotFound'}
components:
  responses:
    NotFound: {content: {application/problem+json: {schema: {properties: {code: {enum: [SHELF_NOT_FOUND]}}}}}}
  schemas:
    Shelf: {type: object, required: [Books], properties: {Books: {type: array, items: {$ref: '#/components/schemas/Book'}}}}
    Book: {allOf: [{type: object, properties: {Title: {type: string}}}, {type: object, properties: {Id: {type: string, format: uuid}}}]}
";

const EVENTS: &str = r"
channels:
  Moved:
    address: shelves.moved
    messages:
      Moved:
        payload: {type: object, required: [Id], properties: {Id: {type: string, format: uuid}, To: {type: [string, 'null']}}}
        headers: {type: object, required: [ce_id, ce_type], properties: {ce_id: {type: string}, ce_type: {const: moved}}}
";

/// RULE-EVT-001, RULE-ALL-063: a message needs the documented topic, headers and members.
#[test]
fn message_with_undocumented_headers_or_payload_is_rejected() {
    let contract = Contract::read(EVENTS).unwrap();
    let id = json!({"Id": "01932b4e-7c1a-7d3e-9f00-5c0fa8b1d2e3", "To": null});
    let check = |topic: &str, headers: &[(&str, &str)], payload: &Value| {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let event =
            Published { topic: topic.to_owned(), headers: headers.collect(), payload: payload.clone() };
        contract.check_event(&event).is_ok()
    };
    assert!(check("shelves.moved", &[("ce_id", "1"), ("ce_type", "moved")], &id));
    assert!(!check("shelves.burnt", &[("ce_id", "1"), ("ce_type", "moved")], &id));
    assert!(!check("shelves.moved", &[("ce_type", "moved")], &id));
    assert!(!check("shelves.moved", &[("ce_id", "1"), ("ce_type", "burnt")], &id));
    assert!(!check("shelves.moved", &[("ce_id", "1"), ("ce_type", "moved"), ("by", "me")], &id));
    assert!(!check("shelves.moved", &[("ce_id", "1"), ("ce_type", "moved")], &json!({})));
}

/// RULE-EVT-001, RULE-ALL-001: events and responses write nullable members.
#[test]
fn absent_nullable_member_is_rejected() {
    let contract = Contract::read(EVENTS).unwrap();
    let moved = |payload: Value| {
        let headers = [("ce_id", "1"), ("ce_type", "moved")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let event =
            Published { topic: "shelves.moved".to_owned(), headers: headers.into_iter().collect(), payload };
        contract.check_event(&event).is_ok()
    };
    let id = "01932b4e-7c1a-7d3e-9f00-5c0fa8b1d2e3";
    assert!(moved(json!({"Id": id, "To": null})) && moved(json!({"Id": id, "To": "the attic"})));
    assert!(!moved(json!({"Id": id})));
    let book = json!({"Books": [{"Title": "a"}]});
    let refusal = check("GET", "/shelves/1", 200, "application/json", book).unwrap_err();
    assert!(refusal.contains("Id"), "{refusal}");
}

fn check(
    method: &str,
    path: &str,
    status: u16,
    content_type: &'static str,
    body: Value,
) -> Result<(), String> {
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let response = Response { status, headers, body, text };
    let contract = Contract::read(DOCUMENT).unwrap();
    contract.check_response(method, path, &response).map_err(|error| format!("{error:#}"))
}

/// RULE-ALL-062: a documented response is accepted.
#[test]
fn documented_response_is_accepted() {
    let shelf = json!({"Books": [{"Title": "a", "Id": "01932b4e-7c1a-7d3e-9f00-5c0fa8b1d2e3"}]});
    check("GET", "/shelves/1", 200, "application/json; charset=utf-8", shelf).unwrap();
    let problem = json!({"code": "SHELF_NOT_FOUND"});
    check("GET", "/shelves/1", 404, "application/problem+json", problem).unwrap();
    check("POST", "/shelves/new", 204, "", Value::Null).unwrap();
    let code = json!({"code": "METHOD_NOT_ALLOWED"});
    check("PUT", "/shelves/1", 405, "application/problem+json", code).unwrap();
}

/// RULE-ALL-062: a response with an undocumented status, type, member or code is rejected.
#[test]
fn undocumented_response_is_rejected() {
    let shelf = || json!({"Books": []});
    for (method, path, status, content_type, body, why) in [
        ("DELETE", "/shelves/1", 204, "", Value::Null, "operation"),
        ("GET", "/shelves/1", 201, "application/json", shelf(), "status"),
        ("GET", "/shelves/1", 200, "text/html", shelf(), "content type"),
        ("GET", "/shelves/1", 200, "application/json", json!({}), "Books"),
        ("GET", "/shelves/1", 200, "application/json", json!({"Books": [], "Owner": 1}), "Owner"),
        ("GET", "/shelves/1", 200, "application/json", json!({"Books": [{"Pages": 1}]}), "Pages"),
        ("GET", "/shelves/1", 200, "application/json", json!({"Books": [{"Id": "x"}]}), "uuid"),
        ("GET", "/shelves/1", 404, "application/problem+json", json!({"code": "GONE"}), "SHELF_NOT_FOUND"),
        ("POST", "/shelves/new", 204, "application/json", shelf(), "body"),
    ] {
        let refusal = check(method, path, status, content_type, body).unwrap_err();
        assert!(refusal.contains(why), "{method} {path}: {refusal}");
    }
}
