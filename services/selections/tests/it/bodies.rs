//! Malformed, mistyped, incomplete and too large bodies.

use std::collections::BTreeMap;

use futures_util::stream;
use reqwest::{Body, Method};
use serde_json::{Value, json};
use testkit::client::{Client, Response, send};

use crate::{
    FROM_FAVORITES, SELECTIONS, create_selection, guid, items_path, members, path, service, snapshots_path,
    text,
};

const INVALID: &str = "SELECTIONS_VALIDATION_FAILED";
const LIMIT: usize = 256 * 1024;

/// Creates a selection with these bytes as the body.
async fn create(owner: &Client, body: impl Into<Body>) -> Response {
    send(owner.request(Method::POST, SELECTIONS).header("content-type", "application/json").body(body)).await
}

/// Returns a valid body of `length` bytes, with spaces before the last brace.
fn padded(length: usize) -> String {
    let (start, end) = ("{\"Title\":\"x\"", "}");
    format!("{start}{}{end}", " ".repeat(length - start.len() - end.len()))
}

/// RULE-ALL-002: a body that is not JSON is refused.
#[tokio::test]
async fn body_that_is_not_json_is_malformed() {
    let (_, owner) = service().user();
    let deep = format!("{{\"Title\":\"x\",\"Items\":{}", "[".repeat(100_000));
    for body in [
        "",
        " ",
        "{",
        "}",
        "nope",
        "{'Title':'x'}",
        "{\"Title\":\"x\",}",
        "{\"Title\":\"x\"} {}",
        "{\"Title\":\"x\"}x",
        "{\"Title\":\"x\" /* why */}",
        "{Title:\"x\"}",
        "{\"Title\":\"\n\"}",
        "{\"Title\":\"\\x\"}",
        "{\"Title\":NaN}",
        "\u{feff}{\"Title\":\"x\"}",
        "<Title>x</Title>",
    ] {
        create(&owner, body).await.expect_refusal(INVALID, "", "malformed");
    }
    create(&owner, deep).await.expect_problem(400, INVALID);
}

/// RULE-ALL-002: broken UTF-16 surrogates and bytes that are not UTF-8 are refused.
#[tokio::test]
async fn text_that_is_not_unicode_is_malformed() {
    let (_, owner) = service().user();
    for escape in ["\\ud800", "\\udc00", "\\udc00\\ud800", "\\ud800x", "\\ud800\\u0041", "\\ud8", "\\uzzzz"] {
        for member in ["Title", "Description"] {
            let body = format!("{{\"Title\":\"x\",\"{member}\":\"a{escape}b\"}}");
            create(&owner, body).await.expect_problem(400, INVALID);
        }
    }
    for bytes in [
        &b"{\"Title\":\"\xff\"}"[..],
        b"{\"Title\":\"\xc0\x80\"}",
        b"{\"Title\":\"\xed\xa0\x80\"}",
        b"\xff\xfe{\0}\0",
    ] {
        create(&owner, bytes).await.expect_refusal(INVALID, "", "malformed");
    }
    let paired = create(&owner, "{\"Title\":\"\\ud83c\\udfe0\"}").await.expect(201);
    assert_eq!(paired["Title"], "🏠");
}

/// RULE-ALL-002: PostgreSQL cannot store a NUL, so the caller gets 400 and not 500. A title of
/// invisible characters counts as empty, and other control characters are kept.
#[tokio::test]
async fn nul_character_is_refused() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    for (title, description, field) in [("a\0b", "x", "/Title"), ("x", "\0", "/Description")] {
        let body = json!({"Title": title, "Description": description});
        for refused in [owner.post(SELECTIONS, body.clone()).await, owner.put(&path(&selection), body).await]
        {
            refused.expect_refusal(INVALID, field, "forbidden_character");
        }
    }
    for blank in [" ", "\n", "\u{200b}", "\u{feff}\u{a0}", "\u{2800}"] {
        for refused in [
            owner.post(SELECTIONS, json!({"Title": blank})).await,
            owner.put(&path(&selection), json!({"Title": blank})).await,
        ] {
            refused.expect_refusal(INVALID, "/Title", "too_short");
        }
    }
    for kept in ["\u{1}", "\u{7f}", "\u{200b}x", "\u{fffe}", "\u{10ffff}", " x\n"] {
        assert_eq!(owner.post(SELECTIONS, json!({"Title": kept})).await.expect(201)["Title"], kept);
    }
}

/// RULE-ALL-001: a mistyped member returns 400 with its JSON pointer.
#[tokio::test]
async fn mistyped_member_is_refused_with_a_pointer() {
    let (_, owner) = service().user();
    let with = |member: &str, value: Value| {
        let mut body =
            json!({"Title": "x", "Items": [{"PropertyObjectId": guid()}, {"PropertyObjectId": guid()}]});
        let (parent, name) = member.rsplit_once('/').unwrap();
        match body.pointer_mut(parent).unwrap() {
            Value::Array(list) => list[name.parse::<usize>().unwrap()] = value,
            object => object[name] = value,
        }
        body
    };
    for (member, values) in [
        ("/Title", json!([null, 1, 1.5, true, [], ["x"], {}])),
        ("/Description", json!([1, false, [], {}])),
        ("/Items", json!([1, "x", true, {}, {"0": {}}])),
        ("/Items/1", json!([1, "x", null, true])),
        (
            "/Items/1/PropertyObjectId",
            json!([null, 1, "", "x", "00000000-0000-0000-0000-00000000000", [], {}]),
        ),
        ("/Items/1/SortOrder", json!(["1", 1.5, 2_147_483_648_i64, -2_147_483_649_i64, true, [], {}])),
    ] {
        for value in values.as_array().unwrap() {
            let refused = owner.post(SELECTIONS, with(member, value.clone())).await;
            refused.expect_refusal(INVALID, member, "invalid_type");
        }
    }
}

/// RULE-ALL-001, RULE-ALL-002: a list is not read as an object.
#[tokio::test]
async fn list_instead_of_an_object_is_refused() {
    let (_, owner) = service().user();
    for body in ["null", "[]", "1", "\"x\"", "true", "[\"Spring\", null, null]", "[{\"Title\":\"x\"}]"] {
        create(&owner, body).await.expect_refusal(INVALID, "", "invalid_type");
    }
    let as_list = json!({"Title": "x", "Items": [[guid(), 1]]});
    owner.post(SELECTIONS, as_list).await.expect_refusal(INVALID, "/Items/0", "invalid_type");
}

/// RULE-SEL-002, RULE-ALL-001: a missing member returns 400 with its JSON pointer.
#[tokio::test]
async fn missing_member_is_refused_with_a_pointer() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    for (refused, field) in [
        (owner.post(SELECTIONS, json!({})).await, "/Title"),
        (owner.post(SELECTIONS, json!({"title": "x"})).await, "/Title"),
        (owner.post(SELECTIONS, json!({"Title": "x", "Items": [{}]})).await, "/Items/0/PropertyObjectId"),
        (owner.put(&path(&selection), json!({"Description": null})).await, "/Title"),
        (owner.put(&items_path(&selection), json!({})).await, "/Items"),
        (owner.put(&items_path(&selection), json!({"items": []})).await, "/Items"),
    ] {
        refused.expect_refusal(INVALID, field, "required");
    }
    let null = owner.put(&items_path(&selection), json!({"Items": null})).await;
    null.expect_refusal(INVALID, "/Items", "invalid_type");
}

/// RULE-SEL-005: `Version` is a whole number of 64 bits.
#[tokio::test]
async fn version_that_is_no_whole_number_is_refused() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    for version in ["\"1\"", "1.5", "true", "[]", "9223372036854775808", "-9223372036854775809", "1e3"] {
        for (path, rest) in [
            (path(&selection), "\"Title\":\"x\",\"Description\":null"),
            (items_path(&selection), "\"Items\":[]"),
        ] {
            let request = owner.request(Method::PUT, &path).header("content-type", "application/json");
            let refused = send(request.body(format!("{{{rest},\"Version\":{version}}}"))).await;
            refused.expect_refusal(INVALID, "/Version", "invalid_type");
        }
    }
    let none = owner.put(&items_path(&selection), json!({"Items": [], "Version": null})).await;
    assert_eq!(none.expect(200)["Version"], 2);
    for huge in ["1e999", &"9".repeat(1000), "-1e999"] {
        let request =
            owner.request(Method::PUT, &items_path(&selection)).header("content-type", "application/json");
        let refused = send(request.body(format!("{{\"Items\":[],\"Version\":{huge}}}"))).await;
        refused.expect_problem(400, INVALID);
    }
}

/// RULE-ALL-001, RULE-ALL-011: all faults of a body are in one problem.
#[tokio::test]
async fn several_faults_are_reported_together() {
    let (_, owner) = service().user();
    let body = json!({"Title": "", "Description": "x".repeat(2001)});
    let problem = owner.post(SELECTIONS, body).await.expect_problem(400, INVALID);
    let errors = problem["errors"].as_array().unwrap();
    let fields = errors.iter().map(|error| (text(&error["field"]), text(&error["code"])));
    let fields: BTreeMap<_, _> = fields.collect();
    assert_eq!(fields, BTreeMap::from([("/Title", "too_short"), ("/Description", "too_long")]));
    for error in errors {
        assert_eq!(members(error), ["code", "field", "message"]);
    }
    let too_long = errors.iter().find(|error| error["code"] == "too_long").unwrap();
    let message = text(&too_long["message"]);
    assert!(message.contains("2000") || message.contains("2,000"), "{message}");
}

/// RULE-ALL-001: unknown members are ignored, whatever their values.
#[tokio::test]
async fn unknown_members_are_ignored() {
    let (_, owner) = service().user();
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    for extra in ["null", "1e999", "{\"Title\":1}", deep.as_str(), "\"\\ud83c\\udfe0\""] {
        let created = create(&owner, format!("{{\"Extra\":{extra},\"Title\":\"x\"}}")).await.expect(201);
        assert_eq!(created.get("Extra"), None);
    }
    let forged = json!({"Title": "x", "Id": guid(), "OwnerUserId": guid(), "Version": 9, "DeletedAt": "x"});
    let created = owner.post(SELECTIONS, forged.clone()).await.expect(201);
    assert_ne!(created["Id"], forged["Id"]);
    assert_ne!(created["OwnerUserId"], forged["OwnerUserId"]);
    assert_eq!((&created["Version"], &created["DeletedAt"]), (&json!(1), &Value::Null));
}

/// RULE-ALL-002: a duplicate member is ambiguous, so it is refused.
#[tokio::test]
async fn duplicate_member_is_refused() {
    let (_, owner) = service().user();
    let object = guid();
    let item = format!("{{\"PropertyObjectId\":\"{object}\",\"PropertyObjectId\":\"{object}\"}}");
    for (body, field) in [
        ("{\"Title\":\"a\",\"Title\":\"b\"}".to_owned(), "/Title"),
        ("{\"Title\":\"a\",\"\\u0054itle\":\"b\"}".to_owned(), "/Title"),
        (format!("{{\"Title\":\"a\",\"Items\":[{item}]}}"), "/Items/0/PropertyObjectId"),
    ] {
        create(&owner, body).await.expect_refusal(INVALID, field, "duplicate");
    }
}

/// RULE-ALL-023: a body that is not sent as JSON returns 415.
#[tokio::test]
async fn body_of_another_media_type_is_unsupported() {
    let (id, owner) = service().user();
    let selection = create_selection(&owner).await;
    let news = service().machine("news");
    let good = json!({
        "Title": "x", "Description": null, "Items": [], "PostId": guid(), "ActorUserId": id, "Reason": "PostDeleted",
    });
    let detach = format!("/api/v1/internal/snapshots/{}/detach", guid());
    for (caller, method, path) in [
        (&owner, Method::POST, SELECTIONS.to_owned()),
        (&owner, Method::POST, FROM_FAVORITES.to_owned()),
        (&owner, Method::PUT, path(&selection)),
        (&owner, Method::PUT, items_path(&selection)),
        (&news, Method::POST, snapshots_path(&selection)),
        (&news, Method::POST, detach),
    ] {
        for wrong in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "application/xml",
            "json",
            "*/*",
        ] {
            let request = caller.request(method.clone(), &path).header("content-type", wrong);
            send(request.body(good.to_string()))
                .await
                .expect_problem(415, "SELECTIONS_UNSUPPORTED_MEDIA_TYPE");
        }
        let untyped = send(caller.request(method.clone(), &path).body(good.to_string())).await;
        untyped.expect_problem(415, "SELECTIONS_UNSUPPORTED_MEDIA_TYPE");
    }
    for right in ["application/json", "application/json; charset=utf-8", "Application/JSON"] {
        let request = owner.request(Method::POST, SELECTIONS).header("content-type", right);
        send(request.body(good.to_string())).await.expect(201);
    }
}

/// RULE-SEL-028, RULE-ALL-025: a body above 256 KiB returns 413, with and without `Content-Length`.
#[tokio::test]
async fn body_above_256_kib_is_too_large() {
    let (_, owner) = service().user();
    let streamed = |length: usize| {
        let body = padded(length);
        let chunks: Vec<_> =
            body.as_bytes().chunks(8 * 1024).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect();
        Body::wrap_stream(stream::iter(chunks))
    };
    create(&owner, padded(LIMIT)).await.expect(201);
    create(&owner, streamed(LIMIT)).await.expect(201);
    for too_large in [create(&owner, padded(LIMIT + 1)).await, create(&owner, streamed(LIMIT + 1)).await] {
        let problem = too_large.expect_problem(413, "SELECTIONS_PAYLOAD_TOO_LARGE");
        assert!(text(&problem["detail"]).replace(',', "").contains("262144"), "{problem}");
    }
}
