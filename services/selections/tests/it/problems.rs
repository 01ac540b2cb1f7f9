//! What is answered to requests that lead nowhere, what a problem looks like, and in which language.

use std::collections::BTreeSet;

use futures_util::stream;
use reqwest::{Body, Method};
use selections::Service;
use serde_json::{Value, json};
use testkit::client::{Client, send};
use testkit::service::Running;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::{
    FAVORITES, FROM_FAVORITES, SELECTIONS, a_few_at_a_time, create_selection, create_selection_of, favorite,
    guid, items, items_path, mark, members, path, service, snapshot_path, snapshots_path, text,
};

const INVALID: &str = "SELECTIONS_VALIDATION_FAILED";

/// Conventions: `NOT_FOUND` for an unknown route, with the prefix of the area.
#[tokio::test]
async fn an_unknown_route_is_not_found() {
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

/// Conventions, Malformed input: a path Guid that does not parse is 404, before the body is read.
#[tokio::test]
async fn a_path_guid_that_does_not_parse_is_not_found() {
    let (_, owner) = service().user();
    for segment in ["x", "00000000-0000-0000-0000-00000000000", "%00", "%FF", "1"] {
        for answer in [
            owner.put(&format!("{SELECTIONS}/{segment}"), json!({})).await,
            owner.put(&format!("{SELECTIONS}/{segment}/items"), json!({})).await,
            owner.delete(&format!("{SELECTIONS}/{segment}")).await,
            owner.put(&format!("{FAVORITES}/{segment}"), json!({})).await,
            owner.delete(&format!("{FAVORITES}/{segment}")).await,
        ] {
            answer.expect_problem(404, "SELECTIONS_NOT_FOUND");
        }
    }
}

/// Conventions: `METHOD_NOT_ALLOWED` 405 with `Allow`, which names what would be answered.
#[tokio::test]
async fn a_wrong_method_is_told_the_right_ones() {
    let (_, user) = service().user();
    let (news, id) = (service().machine("news"), guid());
    for (caller, path, allowed) in [
        (&user, SELECTIONS.to_owned(), vec!["GET", "HEAD", "POST"]),
        (&user, format!("{SELECTIONS}/{id}"), vec!["PUT", "DELETE"]),
        (&user, format!("{SELECTIONS}/AAAAAAAAAAAA"), vec!["GET", "HEAD"]),
        (&user, format!("{SELECTIONS}/{id}/items"), vec!["PUT"]),
        (&user, FAVORITES.to_owned(), vec!["GET", "HEAD"]),
        (&user, favorite(id), vec!["PUT", "DELETE"]),
        (&news, format!("/api/v1/internal/selections/{id}"), vec!["GET", "HEAD"]),
        (&news, format!("/api/v1/internal/selections/{id}/snapshots"), vec!["POST"]),
        (&news, format!("/api/v1/internal/selections/by-owner/{id}"), vec!["GET", "HEAD"]),
        (&news, format!("/api/v1/internal/snapshots/{id}"), vec!["GET", "HEAD"]),
        (&news, format!("/api/v1/internal/snapshots/{id}/detach"), vec!["POST"]),
    ] {
        for wrong in [Method::PATCH, Method::POST, Method::OPTIONS] {
            if !allowed.contains(&wrong.as_str()) {
                let answer = send(caller.request(wrong.clone(), &path)).await;
                assert_eq!(answer.header("allow"), allowed.join(", "), "{wrong} {path}");
                answer.expect_problem(405, "SELECTIONS_METHOD_NOT_ALLOWED");
            }
        }
    }
}

/// RFC 9110: `HEAD` answers as `GET` does, without the body.
#[tokio::test]
async fn what_can_be_read_can_be_asked_about() {
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
        let asked = send(owner.request(Method::HEAD, &path)).await;
        let read = owner.get(&path).await;
        assert_eq!((asked.status, asked.text.as_str()), (status, ""), "{path}");
        for header in ["content-type", "content-length", "allow"] {
            assert_eq!(asked.header(header), read.header(header), "{header} of {path}");
        }
    }
}

/// RFC 9457: the members of a problem, in lower case as the RFC has them, and where it arose.
#[tokio::test]
async fn a_problem_has_the_members_of_the_rfc() {
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

/// Conventions, Errors: titles and messages in the best language that the caller accepts.
#[tokio::test]
async fn problems_speak_the_callers_language() {
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
        let answer = send(request).await;
        assert_eq!(answer.header("content-language"), language, "{accepted:?}");
        let problem = answer.expect_problem(400, INVALID);
        assert_eq!(problem["title"], title, "{accepted:?}");
        let message = text(&problem["errors"][0]["message"]);
        assert_eq!(message.contains("символ"), language == "ru", "{message}");
    }
}

/// Conventions, Errors: the default language comes from configuration.
#[tokio::test]
async fn the_default_language_is_configured() {
    let service = Running::start::<Service>(&[("DEFAULT_LANGUAGE", "ru")]);
    let get = async |accepted: &str| {
        let request = service.guest().request(Method::GET, SELECTIONS).header("accept-language", accepted);
        send(request).await.expect_problem(401, "SELECTIONS_UNAUTHORIZED")["title"].clone()
    };
    assert_eq!((get("fr").await, get("en").await), (json!("Сначала войдите"), json!("Sign in first")));
}

/// Returns every code that the service documents.
fn documented_codes() -> BTreeSet<String> {
    let openapi = service::contracts::<Service>().unwrap().openapi;
    openapi.lines().filter_map(|line| line.trim().strip_prefix("code: ")).map(str::to_owned).collect()
}

/// A service with a guest's address that has no misses left, an owner of as much as they may keep, and a title that
/// gets a public code that is taken.
async fn exhausted() -> (Running, Client, Client) {
    let settings = [("GUEST_MISSES_PER_MINUTE", "1"), ("DATABASE_STATEMENT_TIMEOUT_MS", "2000")];
    let service = Running::start::<Service>(&settings);
    let guest = service.guest();
    guest.get(&format!("{SELECTIONS}/AAAAAAAAAAAA")).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    let (id, full) = service.user();
    let exhaust = format!(
        "insert into owner (user_id, selections_count, favorites_count) values ('{id}', 100, 200);
         create function collide() returns trigger language plpgsql as $$
         begin new.public_code := 'taken0TAKEN1'; return new; end $$;
         create trigger collide before insert on selection
             for each row when (new.title = 'Taken') execute function collide();"
    );
    service.sql().await.batch_execute(&exhaust).await.unwrap();
    service.user().1.post(SELECTIONS, json!({"Title": "Taken"})).await.expect(201);
    (service, guest, full)
}

/// Conventions, Errors: every problem that the service documents is in Russian too, and has the prefix of the area.
#[tokio::test]
async fn every_documented_problem_is_in_russian() {
    let (service, guest, full) = exhausted().await;
    let (id, owner) = service.user();
    let (news, crm) = (service.machine("news"), service.machine("crm"));
    let selection = create_selection(&owner).await;
    let empty = create_selection_of(&owner, json!([])).await;
    let deleted = create_selection(&owner).await;
    owner.delete(&path(&deleted)).await.expect(204);
    let ask = |caller: &Client, method: Method, path: &str| {
        caller.request(method, path).header("accept-language", "ru")
    };
    let put = |path: &str, body: Value| ask(&owner, Method::PUT, path).json(&body);
    let post = |caller: &Client, path: &str, body: Value| ask(caller, Method::POST, path).json(&body);
    let object = guid();
    let twice = json!({"Items": [{"PropertyObjectId": object}, {"PropertyObjectId": object}]});
    let stale = json!({"Items": items(1), "Version": 9});
    let take =
        |source: &Value| post(&news, &snapshots_path(source), json!({"PostId": guid(), "ActorUserId": id}));
    let stalled = Body::wrap_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let requests = [
        ask(&guest, Method::GET, SELECTIONS),
        ask(&guest, Method::GET, &format!("{SELECTIONS}/AAAAAAAAAAAA")),
        ask(&crm, Method::POST, &snapshots_path(&selection)),
        take(&json!({"Id": guid()})),
        take(&empty),
        take(&deleted),
        ask(&news, Method::GET, &snapshot_path(&json!({"SnapshotId": guid()}))),
        ask(&owner, Method::GET, &path(&selection)),
        ask(&owner, Method::POST, SELECTIONS),
        post(&owner, SELECTIONS, json!({"Title": ""})),
        post(&owner, SELECTIONS, json!({"Title": "Taken"})),
        post(&full, SELECTIONS, json!({"Title": "x"})),
        ask(&full, Method::PUT, &favorite(object)),
        ask(&owner, Method::POST, SELECTIONS).header("content-type", "application/json").body(stalled),
        put(&path(&selection), json!({"Title": "x".repeat(256 * 1024)})),
        put(&items_path(&selection), twice),
        put(&items_path(&selection), stale),
        put(&items_path(&selection), json!({"Items": items(201)})),
        post(&owner, FROM_FAVORITES, json!({})),
    ];
    let mut answers = a_few_at_a_time(requests.into_iter().map(send)).await;
    let sql = service.sql().await;
    sql.batch_execute("alter table favorite rename to lost").await.unwrap();
    answers.push(send(ask(&owner, Method::GET, FAVORITES)).await);
    sql.batch_execute("begin; lock table selection in access exclusive mode").await.unwrap();
    answers.push(send(ask(&owner, Method::GET, SELECTIONS)).await);

    let codes: BTreeSet<_> = answers.iter().map(|answer| text(&answer.body["code"]).to_owned()).collect();
    assert_eq!(codes, documented_codes());
    for answer in answers {
        assert_eq!(answer.header("content-language"), "ru");
        let cyrillic = |value: &Value| text(value).chars().any(|c| ('а'..='я').contains(&c));
        assert!(cyrillic(&answer.body["title"]), "{}", answer.text);
        assert!(answer.body["detail"].is_null() || cyrillic(&answer.body["detail"]), "{}", answer.text);
        for error in answer.body["errors"].as_array().unwrap() {
            assert!(cyrillic(&error["message"]), "{error}");
        }
        assert!(text(&answer.body["code"]).starts_with("SELECTIONS_"), "{}", answer.text);
    }
}

/// Conventions, Time: RFC 3339 in UTC, with microseconds at most.
#[tokio::test]
async fn times_are_utc_with_microseconds_at_most() {
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

/// Successes say what they are.
#[tokio::test]
async fn answers_are_json() {
    let (_, owner) = service().user();
    let created = owner.post(SELECTIONS, json!({"Title": "x"})).await;
    assert_eq!((created.status, created.header("content-type")), (201, "application/json"));
}
