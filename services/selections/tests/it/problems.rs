//! Problems: unknown routes and methods, members, languages.

use std::collections::BTreeSet;

use futures_util::stream;
use reqwest::{Body, Method};
use selections::Service;
use serde_json::{Value, json};
use testkit::client::{Client, send};
use testkit::service::Running;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::collaborators::{fill_shared, fill_shared_by};
use crate::{
    FAVORITES, FROM_FAVORITES, SELECTIONS, collaborator_path, create_selection, create_selection_of,
    favorite_path, guid, items, items_path, join_limited, mark, members, path, service, snapshot_path,
    snapshots_path, text,
};

const INVALID: &str = "SELECTIONS_VALIDATION_FAILED";

/// RULE-SEL-037, RULE-ALL-014: an unknown route returns the prefixed 404.
#[tokio::test]
async fn unknown_route_is_not_found() {
    let (_, owner) = service().user();
    for route in [
        "/",
        "/api",
        "/api/v1",
        "/api/v2/selections",
        "/api/v1/selection",
        "/API/v1/selections",
        "/api/v1/selections/",
        "/api/v1/favorites/",
        "//api/v1/selections",
        "/api/v1/selections/x/y/z",
        "/favicon.ico",
        "/docs",
        "/.env",
    ] {
        let problem = owner.get(route).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
        assert_eq!(problem["instance"], route);
    }
}

/// RULE-SEL-016, RULE-ALL-002: a Guid in a path that does not parse returns 404 before the body is
/// read.
#[tokio::test]
async fn unparsable_path_guid_precedes_the_body() {
    let (_, owner) = service().user();
    for segment in ["x", "00000000-0000-0000-0000-00000000000", "%00", "%FF", "1"] {
        for response in [
            owner.put(&format!("{SELECTIONS}/{segment}"), json!({})).await,
            owner.put(&format!("{SELECTIONS}/{segment}/items"), json!({})).await,
            owner.delete(&format!("{SELECTIONS}/{segment}")).await,
            owner.put(&format!("{FAVORITES}/{segment}"), json!({})).await,
            owner.delete(&format!("{FAVORITES}/{segment}")).await,
        ] {
            response.expect_problem(404, "SELECTIONS_NOT_FOUND");
        }
    }
}

/// RULE-SEL-014, RULE-ALL-015: 405 has `Allow` with the methods of the path.
#[tokio::test]
async fn wrong_method_returns_the_allowed_ones() {
    let (_, user) = service().user();
    let (news, id) = (service().machine("news"), guid());
    for (caller, path, allowed) in [
        (&user, SELECTIONS.to_owned(), vec!["GET", "HEAD", "POST"]),
        (&user, format!("{SELECTIONS}/{id}"), vec!["PUT", "DELETE"]),
        (&user, format!("{SELECTIONS}/AAAAAAAAAAAA"), vec!["GET", "HEAD"]),
        (&user, format!("{SELECTIONS}/{id}/items"), vec!["PUT"]),
        (&user, FAVORITES.to_owned(), vec!["GET", "HEAD"]),
        (&user, favorite_path(id), vec!["PUT", "DELETE"]),
        (&news, format!("/api/v1/internal/selections/{id}"), vec!["GET", "HEAD"]),
        (&news, format!("/api/v1/internal/selections/{id}/snapshots"), vec!["POST"]),
        (&news, format!("/api/v1/internal/selections/by-owner/{id}"), vec!["GET", "HEAD"]),
        (&news, format!("/api/v1/internal/snapshots/{id}"), vec!["GET", "HEAD"]),
        (&news, format!("/api/v1/internal/snapshots/{id}/detach"), vec!["POST"]),
    ] {
        for wrong in [Method::PATCH, Method::POST, Method::OPTIONS] {
            if !allowed.contains(&wrong.as_str()) {
                let response = send(caller.request(wrong.clone(), &path)).await;
                assert_eq!(response.header("allow"), allowed.join(", "), "{wrong} {path}");
                response.expect_problem(405, "SELECTIONS_METHOD_NOT_ALLOWED");
            }
        }
    }
}

/// RULE-ALL-016: `HEAD` returns the status and the headers of `GET`, without the body (RFC 9110).
#[tokio::test]
async fn head_returns_the_headers_of_get() {
    let (_, owner) = service().user();
    for (path, status) in [
        (SELECTIONS.to_owned(), 200),
        (FAVORITES.to_owned(), 200),
        (format!("{SELECTIONS}/AAAAAAAAAAAA"), 404),
        (format!("{SELECTIONS}/{}", guid()), 405),
        (format!("{SELECTIONS}/{}/items", guid()), 405),
        (format!("{SELECTIONS}?Page=0"), 400),
        ("/api/v1/nothing".to_owned(), 404),
    ] {
        let head = send(owner.request(Method::HEAD, &path)).await;
        let read = owner.get(&path).await;
        assert_eq!((head.status, head.text.as_str()), (status, ""), "{path}");
        for header in ["content-type", "content-length", "allow"] {
            assert_eq!(head.header(header), read.header(header), "{header} of {path}");
        }
    }
}

/// RULE-ALL-010, RULE-ALL-039: a problem has the members of RFC 9457, with the instance and the
/// trace.
#[tokio::test]
async fn problem_has_the_members_of_the_rfc() {
    let (_, owner) = service().user();
    let trace = guid().simple().to_string();
    let path = format!("{SELECTIONS}?Page=0");
    let request =
        owner.request(Method::GET, &path).header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));

    let problem = send(request).await.expect_problem(400, INVALID);

    assert_eq!(
        members(&problem),
        ["code", "detail", "errors", "instance", "status", "title", "traceId", "type"]
    );
    assert_eq!(problem["instance"], SELECTIONS);
    assert_eq!(problem["traceId"], trace.as_str());
    assert!(text(&problem["type"]).contains(':'), "a URI: {problem}");
    assert_eq!(problem["errors"][0]["field"], "/Page");
}

/// RULE-SEL-048, RULE-ALL-010: titles and messages are in the best language that the caller
/// accepts.
#[tokio::test]
async fn problems_are_in_the_callers_language() {
    let (_, owner) = service().user();
    let (english, russian) = (("en", "The request is not valid"), ("ru", "Запрос заполнен неверно"));
    for (accepted, (language, title)) in [
        (None, english),
        (Some("en"), english),
        (Some("ru"), russian),
        (Some("RU"), russian),
        (Some("ru-RU"), russian),
        (Some("ru-RU,ru;q=0.9,en-US;q=0.8,en;q=0.7"), russian),
        (Some("en;q=0.5, ru;q=0.9"), russian),
        (Some("ru;q=0.5, en;q=0.9"), english),
        (Some("fr, ru;q=0.1"), russian),
        (Some("fr"), english),
        (Some("*"), english),
        (Some("ru;q=0"), english),
        (Some("ru;q=0, *"), english),
        (Some(""), english),
        (Some(";;;q=x,,"), english),
    ] {
        let mut request = owner.request(Method::POST, SELECTIONS).json(&json!({"Title": ""}));
        if let Some(accepted) = accepted {
            request = request.header("accept-language", accepted);
        }
        let response = send(request).await;
        assert_eq!(response.header("content-language"), language, "{accepted:?}");
        let problem = response.expect_problem(400, INVALID);
        assert_eq!(problem["title"], title, "{accepted:?}");
        let message = text(&problem["errors"][0]["message"]);
        assert_eq!(message.contains("символ"), language == "ru", "{message}");
    }
}

/// RULE-ALL-010: the default language is a setting.
#[tokio::test]
async fn default_language_is_configurable() {
    let service = Running::start::<Service>(&[("DEFAULT_LANGUAGE", "ru")]);
    let get = async |accepted: &str| {
        let request = service.guest().request(Method::GET, SELECTIONS).header("accept-language", accepted);
        send(request).await.expect_problem(401, "SELECTIONS_UNAUTHORIZED")["title"].clone()
    };
    assert_eq!((get("fr").await, get("en").await), (json!("Сначала войдите"), json!("Sign in first")));
}

/// Returns every documented code.
fn documented_codes() -> BTreeSet<String> {
    let openapi = service::contracts::<Service>().unwrap().openapi;
    openapi.lines().filter_map(|line| line.trim().strip_prefix("code: ")).map(str::to_owned).collect()
}

/// Starts a service with exhausted limits.
///
/// Returns a guest without misses left and an owner at both limits. The title "Taken" gets a
/// public code that is already taken. The commit of a selection "Lost" fails with the error of a
/// PgBouncer that lost its server.
async fn start_exhausted() -> (Running, Client, Client) {
    let settings = [
        ("GUEST_MISSES_PER_MINUTE", "1"),
        ("SELECTIONS_MAX_ADDED_ITEMS_PER_PERSON_PER_HOUR", "1000"),
        ("DATABASE_STATEMENT_TIMEOUT_MS", "2000"),
    ];
    let service = Running::start::<Service>(&settings);
    let guest = service.guest();
    guest.get(&format!("{SELECTIONS}/AAAAAAAAAAAA")).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    let (id, full) = service.user();
    let exhaust = format!(
        "insert into owner (user_id, selections_count, favorites_count) values ('{id}', 100, 200);
         create function collide() returns trigger language plpgsql as $$
         begin new.public_code := 'taken0TAKEN1'; return new; end $$;
         create trigger collide before insert on selection
             for each row when (new.title = 'Taken') execute function collide();
         create function crash() returns trigger language plpgsql as $$
         begin raise exception 'server conn crashed?'; end $$;
         create constraint trigger crash after insert on selection deferrable initially deferred
             for each row when (new.title = 'Lost') execute function crash();"
    );
    service.sql().await.batch_execute(&exhaust).await.unwrap();
    service.user().1.post(SELECTIONS, json!({"Title": "Taken"})).await.expect(201);
    (service, guest, full)
}

/// RULE-SEL-048, RULE-ALL-010: each documented problem has a Russian text and the prefix of the
/// service.
#[tokio::test]
async fn every_documented_problem_is_in_russian() {
    let (service, guest, full) = start_exhausted().await;
    let (id, owner) = service.user();
    let sql = service.sql().await;
    let keys = format!(
        "insert into idempotent_response (actor, key, fingerprint, status, body)
             values ('{id}', 'used', decode(repeat('00', 16), 'hex'), 201, '{{}}');
         select pg_advisory_lock(hashtextextended('selections {id} locked', 0));"
    );
    sql.batch_execute(&keys).await.unwrap();
    let (news, crm) = (service.machine("news"), service.machine("crm"));
    let selection = create_selection(&owner).await;
    let empty = create_selection_of(&owner, json!([])).await;
    let deleted = create_selection(&owner).await;
    owner.delete(&path(&deleted)).await.expect(204);
    let collaborators = format!(
        "insert into collaborator select '{}', gen_random_uuid(), now() from generate_series(1, 20)",
        text(&selection["Id"])
    );
    sql.batch_execute(&collaborators).await.unwrap();
    let person = guid();
    fill_shared(&sql, person).await;
    let assistant = guid();
    fill_shared_by(&sql, id, assistant, 50).await;
    let (adder_id, adder) = service.user();
    let at_limit = format!(
        "insert into owner (user_id, added_items_count, added_items_since) values ('{adder_id}', 1000, now())"
    );
    sql.batch_execute(&at_limit).await.unwrap();
    let (left_id, left) = service.user();
    owner.put(&collaborator_path(&empty, left_id), Value::Null).await.expect(204);
    left.delete(&collaborator_path(&empty, left_id)).await.expect(204);
    let request = |caller: &Client, method: Method, path: &str| {
        caller.request(method, path).header("accept-language", "ru")
    };
    let put = |path: &str, body: Value| request(&owner, Method::PUT, path).json(&body);
    let post = |caller: &Client, path: &str, body: Value| request(caller, Method::POST, path).json(&body);
    let object = guid();
    let twice = json!({"Items": [{"PropertyObjectId": object}, {"PropertyObjectId": object}]});
    let stale = json!({"Items": items(1), "Version": 9});
    let take =
        |source: &Value| post(&news, &snapshots_path(source), json!({"PostId": guid(), "ActorUserId": id}));
    let stalled = Body::wrap_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let requests = [
        request(&guest, Method::GET, SELECTIONS),
        request(&guest, Method::GET, &format!("{SELECTIONS}/AAAAAAAAAAAA")),
        request(&crm, Method::POST, &snapshots_path(&selection)),
        take(&json!({"Id": guid()})),
        take(&empty),
        take(&deleted),
        request(&news, Method::GET, &snapshot_path(&json!({"SnapshotId": guid()}))),
        request(&owner, Method::GET, &path(&selection)),
        request(&owner, Method::POST, SELECTIONS),
        post(&owner, SELECTIONS, json!({"Title": ""})),
        post(&owner, SELECTIONS, json!({"Title": "Taken"})),
        post(&owner, SELECTIONS, json!({"Title": "Lost"})),
        post(&owner, SELECTIONS, json!({"Title": "x"})).header("Idempotency-Key", "used"),
        post(&owner, SELECTIONS, json!({"Title": "x"})).header("Idempotency-Key", "locked"),
        post(&full, SELECTIONS, json!({"Title": "x"})),
        post(&adder, SELECTIONS, json!({"Title": "x", "Items": items(1)})),
        request(&full, Method::PUT, &favorite_path(object)),
        request(&owner, Method::PUT, &collaborator_path(&selection, object)),
        request(&owner, Method::PUT, &collaborator_path(&empty, person)),
        request(&owner, Method::PUT, &collaborator_path(&empty, assistant)),
        request(&owner, Method::PUT, &collaborator_path(&empty, left_id)),
        request(&owner, Method::POST, SELECTIONS).header("content-type", "application/json").body(stalled),
        put(&path(&selection), json!({"Title": "x".repeat(256 * 1024)})),
        put(&items_path(&selection), twice),
        put(&items_path(&selection), stale),
        put(&items_path(&selection), json!({"Items": items(201)})),
        post(&owner, FROM_FAVORITES, json!({})),
    ];
    let mut responses = join_limited(requests.into_iter().map(send)).await;
    sql.batch_execute("alter table favorite rename to lost").await.unwrap();
    responses.push(send(request(&owner, Method::GET, FAVORITES)).await);
    sql.batch_execute("begin; lock table selection in access exclusive mode").await.unwrap();
    responses.push(send(request(&owner, Method::GET, SELECTIONS)).await);

    let codes: BTreeSet<_> =
        responses.iter().map(|response| text(&response.body["code"]).to_owned()).collect();
    assert_eq!(codes, documented_codes());
    for response in responses {
        assert_eq!(response.header("content-language"), "ru");
        let cyrillic = |value: &Value| text(value).chars().any(|c| ('а'..='я').contains(&c));
        assert!(cyrillic(&response.body["title"]), "{}", response.text);
        assert!(response.body["detail"].is_null() || cyrillic(&response.body["detail"]), "{}", response.text);
        for error in response.body["errors"].as_array().unwrap() {
            assert!(cyrillic(&error["message"]), "{error}");
        }
        assert!(text(&response.body["code"]).starts_with("SELECTIONS_"), "{}", response.text);
    }
}

/// RULE-ALL-004: times are RFC 3339 in UTC with at most microseconds.
#[tokio::test]
async fn times_are_utc_with_at_most_microseconds() {
    let (_, owner) = service().user();
    mark(&owner, guid()).await;
    let selection = create_selection(&owner).await;
    let favorites = owner.get(FAVORITES).await.expect(200);
    for time in [
        &selection["CreatedAt"],
        &selection["UpdatedAt"],
        &selection["Items"][0]["AddedAt"],
        &favorites["Items"][0]["AddedAt"],
    ] {
        let time = text(time);
        OffsetDateTime::parse(time, &Rfc3339).unwrap();
        let (_, fraction) = time.strip_suffix('Z').unwrap().split_once('.').unwrap_or_default();
        assert!(fraction.len() <= 6, "{time}");
    }
}

/// RULE-ALL-001: a successful response has the media type of JSON.
#[tokio::test]
async fn successful_response_is_json() {
    let (_, owner) = service().user();
    let created = owner.post(SELECTIONS, json!({"Title": "x"})).await;
    assert_eq!((created.status, created.header("content-type")), (201, "application/json"));
}
