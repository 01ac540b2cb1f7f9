//! Requests with `Idempotency-Key`, and commits whose outcome is unknown.

use futures_util::future::join;
use reqwest::Method;
use selections::Service;
use serde_json::{Value, json};
use testkit::bus::skip_to_end;
use testkit::client::{Client, Response, send};
use testkit::database;
use testkit::held::HeldLocks;
use testkit::service::Running;
use testkit::statements::StatementCounter;
use uuid::Uuid;

use crate::{FROM_FAVORITES, SELECTIONS, create_selection, eventually, guid, mark, service};

const IN_USE: &str = "SELECTIONS_IDEMPOTENCY_KEY_IN_USE";
const REUSED: &str = "SELECTIONS_IDEMPOTENCY_KEY_REUSED";
const FIELD: &str = "/Idempotency-Key";

async fn post(owner: &Client, path: &str, key: &str, body: &Value) -> Response {
    send(owner.request(Method::POST, path).header("Idempotency-Key", key).json(body)).await
}

/// Returns the number of the caller's selections.
async fn count(owner: &Client) -> Value {
    owner.get(SELECTIONS).await.expect(200)["TotalCount"].clone()
}

async fn stored_responses(on: &Running, owner: Uuid) -> i64 {
    let (sql, actor) = (on.cached_sql().await, owner.to_string());
    let count = "select count(*) from idempotent_response where actor = $1";
    sql.query_one(count, &[&actor]).await.unwrap().get(0)
}

/// RULE-ALL-081: a repeat returns the first response, and creates and publishes nothing.
#[tokio::test]
async fn repeat_returns_the_first_response_and_creates_nothing() {
    let ((id, owner), key) = (service().user(), guid().to_string());
    let body = json!({"Title": "Spring"});
    let first = post(&owner, SELECTIONS, &key, &body).await;
    let selection: Value = serde_json::from_str(&first.text).unwrap();
    let change = json!({"Title": "Autumn", "Description": null});
    owner.put(&crate::path(&selection), change).await.expect(200);
    for form in [key.clone(), format!("\"{key}\"")] {
        let repeat = post(&owner, SELECTIONS, &form, &body).await;
        assert_eq!(repeat.text, first.text, "the first response, although the selection has changed");
        assert_eq!(repeat.header("content-type"), first.header("content-type"));
        repeat.expect(201);
    }
    first.expect(201);
    assert_eq!(count(&owner).await, 1);
    assert_eq!(
        crate::topics(&crate::events_of(service(), &selection).await),
        [crate::CREATED, crate::UPDATED]
    );
    assert_eq!(stored_responses(service(), id).await, 1);
}

/// RULE-ALL-081: without a key each request creates, and nothing is stored.
#[tokio::test]
async fn request_without_key_creates_each_time() {
    let (id, owner) = service().user();
    for _ in 0..2 {
        create_selection(&owner).await;
    }
    assert_eq!(count(&owner).await, 2);
    assert_eq!(stored_responses(service(), id).await, 0);
}

/// RULE-ALL-082: a key belongs to one request, with its path, its query and its body.
#[tokio::test]
async fn key_of_another_request_is_refused() {
    let ((_, owner), key) = (service().user(), guid().to_string());
    mark(&owner, guid()).await;
    let body = json!({"Title": "Spring"});
    post(&owner, SELECTIONS, &key, &body).await.expect(201);
    let with_query = format!("{SELECTIONS}?Page=1");
    for (path, body) in
        [(SELECTIONS, &json!({"Title": "Autumn"})), (FROM_FAVORITES, &body), (&with_query, &body)]
    {
        post(&owner, path, &key, body).await.expect_problem(422, REUSED);
    }
    assert_eq!(count(&owner).await, 1);
}

/// RULE-ALL-081: two users can use the same key.
#[tokio::test]
async fn key_of_another_user_is_free() {
    let key = guid().to_string();
    let body = json!({"Title": "Spring"});
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (_, owner) = service().user();
        ids.push(post(&owner, SELECTIONS, &key, &body).await.expect(201)["Id"].clone());
    }
    assert_ne!(ids[0], ids[1]);
}

/// RULE-ALL-082: a repeat during the first request is refused, and succeeds afterwards.
#[tokio::test]
async fn repeat_during_the_first_request_is_refused() {
    let ((id, owner), key) = (service().user(), guid().to_string());
    // Inserts the row of the owner, which the test then locks.
    create_selection(&owner).await;
    let held =
        HeldLocks::lock(service(), &format!("select from owner where user_id = '{id}' for update")).await;
    let body = json!({"Title": "Spring"});
    let during = async {
        held.wait_for(1, HeldLocks::ANY).await;
        post(&owner, SELECTIONS, &key, &body).await.expect_problem(409, IN_USE);
        let other = guid().to_string();
        let (_, stranger) = service().user();
        post(&stranger, SELECTIONS, &other, &body).await.expect(201);
        held.release().await;
    };
    let (first, ()) = join(post(&owner, SELECTIONS, &key, &body), during).await;
    let repeat = post(&owner, SELECTIONS, &key, &body).await;
    assert_eq!(first.expect(201), repeat.expect(201));
    assert_eq!(count(&owner).await, 2);
}

/// RULE-ALL-083: a malformed key is refused before anything is stored.
#[tokio::test]
async fn malformed_key_is_refused() {
    let (_, owner) = service().user();
    let body = json!({"Title": "Spring"});
    let longest = "k".repeat(255);
    let refused = "SELECTIONS_VALIDATION_FAILED";
    for (key, reason) in [
        ("", "too_short"),
        (&*format!("{longest}k"), "too_long"),
        ("a b", "forbidden_character"),
        ("\"open", "forbidden_character"),
    ] {
        post(&owner, SELECTIONS, key, &body).await.expect_refusal(refused, FIELD, reason);
    }
    let twice = owner.request(Method::POST, SELECTIONS).header("Idempotency-Key", "a");
    let twice = send(twice.header("Idempotency-Key", "b").json(&body)).await;
    twice.expect_refusal(refused, FIELD, "duplicate");
    assert_eq!(count(&owner).await, 0);
    post(&owner, SELECTIONS, &longest, &body).await.expect(201);
    // The token is checked before the key.
    post(&service().guest(), SELECTIONS, "", &body).await.expect_problem(401, "SELECTIONS_UNAUTHORIZED");
}

/// RULE-ALL-081: a refused request stores nothing, so the caller can correct it and keep the key.
#[tokio::test]
async fn refused_request_leaves_its_key_free() {
    let ((id, owner), key) = (service().user(), guid().to_string());
    let body = json!({"Title": "Spring"});
    post(&owner, FROM_FAVORITES, &key, &body).await.expect_problem(400, "SELECTIONS_FAVORITES_EMPTY");
    post(&owner, SELECTIONS, &key, &json!({"Title": ""})).await.expect(400);
    assert_eq!(stored_responses(service(), id).await, 0);
    mark(&owner, guid()).await;
    post(&owner, FROM_FAVORITES, &key, &body).await.expect(201);
}

/// RULE-ALL-081: a response is stored for a day, then a job deletes it and the key is free.
#[tokio::test]
async fn key_is_free_after_a_day() {
    let ((id, owner), [expired, kept]) = (service().user(), [guid(), guid()].map(|key| key.to_string()));
    let body = json!({"Title": "Spring"});
    let mut ids = Vec::new();
    for key in [&expired, &kept] {
        ids.push(post(&owner, SELECTIONS, key, &body).await.expect(201)["Id"].clone());
    }
    let sql = service().cached_sql().await;
    let age = "update idempotent_response set created_at = created_at - $2::text::interval where key = $1";
    sql.execute(age, &[&expired, &"24 hours"]).await.unwrap();
    sql.execute(age, &[&kept, &"23 hours"]).await.unwrap();
    sql.execute("update job set due_at = now() where kind = 'idempotent-responses'", &[]).await.unwrap();
    eventually("the deletion", async || (stored_responses(service(), id).await == 1).then_some(())).await;
    assert_eq!(post(&owner, SELECTIONS, &kept, &body).await.expect(201)["Id"], ids[1]);
    assert_ne!(post(&owner, SELECTIONS, &expired, &body).await.expect(201)["Id"], ids[0]);
}

/// RULE-ALL-081: a user with 20,000 stored responses creates nothing with a new key. Stored
/// responses are returned, requests without a key succeed, and other users are not affected.
#[tokio::test]
async fn key_above_the_limit_of_a_user_is_refused() {
    let ((id, owner), [known, new]) = (service().user(), [guid(), guid()].map(|key| key.to_string()));
    let body = json!({"Title": "Spring"});
    let first = post(&owner, SELECTIONS, &known, &body).await.expect(201);
    let fill = "insert into idempotent_response (actor, key, fingerprint, status, body) \
                select $1, n::text, decode(repeat('00', 16), 'hex'), 201, '' from generate_series(2, 20000) as n";
    service().cached_sql().await.execute(fill, &[&id.to_string()]).await.unwrap();
    let refused = post(&owner, SELECTIONS, &new, &body).await;
    assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|wait| wait >= 1));
    refused.expect_problem(429, "SELECTIONS_RATE_LIMITED");
    assert_eq!(count(&owner).await, 1);
    assert_eq!(post(&owner, SELECTIONS, &known, &body).await.expect(201), first);
    create_selection(&owner).await;
    let (_, other) = service().user();
    post(&other, SELECTIONS, &new, &body).await.expect(201);
}

/// RULE-ALL-080, RULE-ALL-081: if the response of the commit is lost, the problem has no
/// `Retry-After`. A repeat with the same key returns the first response.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_without_response_has_unknown_outcome() {
    let (url, suffix) = (database::create().await.unwrap(), format!(".{}", guid().simple()));
    skip_to_end::<Service>(&suffix).await.unwrap();
    let proxy = StatementCounter::start(&url).await;
    let settings = [("DATABASE_URL", proxy.url()), ("KAFKA_GROUP_SUFFIX", &suffix)];
    let service = Running::start::<Service>(&settings);
    let (_, owner) = service.user();
    let (key, title) = (guid().to_string(), guid().to_string());
    let body = json!({"Title": title});
    proxy.lose_commit_response(&title);
    let lost = post(&owner, SELECTIONS, &key, &body).await;
    assert_eq!(lost.header("retry-after"), "");
    lost.expect_problem(503, "SELECTIONS_OUTCOME_UNKNOWN");
    let stored = owner.get(SELECTIONS).await.expect(200)["Items"][0].clone();
    assert_eq!(stored["Title"], title.as_str(), "PostgreSQL has committed");
    assert_eq!(post(&owner, SELECTIONS, &key, &body).await.expect(201), stored);
    assert_eq!(count(&owner).await, 1);
}
