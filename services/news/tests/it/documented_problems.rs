//! Every documented problem in the caller's language.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use futures_util::stream;
use news::Service;
use reqwest::{Body, Method, RequestBuilder};
use serde_json::{Value, json};
use testkit::client::send;
use testkit::faults::Fault;
use testkit::issuer::CLIENTS;
use testkit::service::Running;

use crate::{
    POSTS, author_at, blocks_path, content, embed, embed_snapshot, formatted, guid, path, proxy, take_path,
    text, text_block,
};

/// Returns every documented code.
fn documented_codes() -> BTreeSet<String> {
    let openapi = ::service::contracts::<Service>().unwrap().openapi;
    openapi.lines().filter_map(|line| line.trim().strip_prefix("code: ")).map(str::to_owned).collect()
}

/// Sends a request in each language and returns the code.
///
/// The response to a language that the service lacks is in English.
async fn code_in_each_language(request: impl Fn() -> RequestBuilder) -> String {
    let languages = ["en", "ru", "fr"];
    let responses = languages.map(|language| send(request().header("accept-language", language)));
    let responses = join_all(responses).await;
    let cyrillic = |words: &Value| text(words).chars().any(|c| ('а'..='я').contains(&c));
    for (response, language) in responses.iter().zip(languages) {
        let is_russian = language == "ru";
        assert_eq!(response.header("content-language"), if is_russian { "ru" } else { "en" });
        assert_eq!(response.body["code"], responses[0].body["code"]);
        assert_eq!(cyrillic(&response.body["title"]), is_russian, "{}", response.text);
        let detail = &response.body["detail"];
        assert!(detail.is_null() || cyrillic(detail) == is_russian, "{}", response.text);
        for error in response.body["errors"].as_array().unwrap() {
            assert_eq!(cyrillic(&error["message"]), is_russian, "{}", response.text);
        }
    }
    text(&responses[0].body["code"]).to_owned()
}

/// RULE-NWS-044: each documented problem is in the caller's language.
#[tokio::test]
async fn every_documented_problem_is_in_the_callers_language() {
    let news = Running::start::<Service>(&[
        ("SELECTIONS_URL", &proxy().url()),
        ("CLIENT_SECRET", CLIENTS[0].1),
        ("GUEST_READS_PER_MINUTE", "1"),
        ("DATABASE_STATEMENT_TIMEOUT_MS", "2000"),
        ("NEWS_MAX_DRAFTS_PER_AUTHOR", "2"),
    ]);
    let (author, guest) = (author_at(&news), news.guest());
    let author_at_limits = author_at(&news);
    let drafts = [author_at_limits.create_post().await, author_at_limits.create_post().await];
    let (draft, archived) = (author.create_post().await, author.create_post().await);
    author.change_status(&archived, "archive").await.expect(200);
    let (missing, unavailable) = (guid().to_string(), guid().to_string());
    guest.get(&path(&missing)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    let empty = author.selections.post("/api/v1/selections", json!({"Title": "Empty"})).await.expect(201);
    proxy().inject(take_path(&unavailable), Fault::problem(400, "SELECTIONS_NEWER_THAN_US"));

    let sql = news.sql().await;
    // The commit of a post "Lost" fails with the error of a PgBouncer that lost its server.
    let (id, id_at_limits) = (author.id, author_at_limits.id);
    let prepare = format!(
        "update author set content_bytes = 1 << 30 where user_id = '{id_at_limits}';
         insert into idempotent_response (actor, key, fingerprint, status, body)
             select '{id}', 'used-' || n, decode(repeat('00', 16), 'hex'), 201, '{{}}' from generate_series(1, 3) n;
         select pg_advisory_lock(hashtextextended('news {id} locked', 0));
         create function crash() returns trigger language plpgsql as $$
         begin raise exception 'server conn crashed?'; end $$;
         create constraint trigger crash after insert on post deferrable initially deferred
             for each row when (new.title = 'Lost') execute function crash();"
    );
    sql.batch_execute(&prepare).await.unwrap();

    let request = |method: Method, path: &str| author.news.request(method, path);
    // Concurrent requests with one key refuse each other.
    let used = AtomicUsize::new(0);
    let used_key = || format!("used-{}", used.fetch_add(1, Ordering::Relaxed) + 1);
    let create = |title: &str| request(Method::POST, POSTS).json(&json!({"Title": title}));
    let edit = |block: Value| request(Method::PUT, &blocks_path(&draft)).json(&content([block]));
    let rename = |post: &str, body: Value| request(Method::PUT, &path(post)).json(&body);
    let stalled = || Body::wrap_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let nested = "<div>".repeat(300);
    let at_limits = |method: Method, path: &str| author_at_limits.news.request(method, path);
    let missed = json!({"PublishAt": "2026-01-01T00:00:00Z", "UnpublishAt": "2026-01-02T00:00:00Z"});
    let requests: [&dyn Fn() -> RequestBuilder; 28] = [
        &|| guest.request(Method::POST, POSTS),
        &|| guest.request(Method::GET, &path(&missing)),
        &|| news.user().1.request(Method::PUT, &path(&draft)).json(&json!({"Title": "x"})),
        &|| request(Method::PUT, &path("x")),
        &|| request(Method::POST, POSTS),
        &|| request(Method::POST, POSTS).header("content-type", "application/json").body(stalled()),
        &|| rename(&draft, json!({"Title": "x".repeat(256 * 1024)})),
        &|| rename(&missing, json!({"Title": "x"})),
        &|| rename(&archived, json!({"Title": "x"})),
        &|| rename(&draft, json!({"Title": "x", "Version": 9})),
        &|| edit(text_block("")),
        &|| request(Method::PUT, &format!("{POSTS}/{draft}/schedule")).json(&missed),
        &|| request(Method::GET, &format!("{POSTS}/{draft}/revisions/9")),
        &|| request(Method::GET, &format!("{POSTS}?Statuses=Draft")),
        &|| edit(json!({"Kind": "SelectionEmbed"})),
        &|| edit(formatted("Html", &nested)),
        &|| edit(embed(&missing)),
        &|| edit(embed(text(&empty["Id"]))),
        &|| edit(embed(&unavailable)),
        &|| edit(embed_snapshot(&missing)),
        &|| request(Method::PUT, &blocks_path(&draft)).json(&content(vec![text_block("x"); 201])),
        &|| request(Method::POST, &format!("{POSTS}/{draft}/publish")),
        &|| request(Method::POST, &format!("{POSTS}/{draft}/unpublish")),
        &|| create("Lost"),
        &|| create("x").header("Idempotency-Key", used_key()),
        &|| create("x").header("Idempotency-Key", "locked"),
        &|| at_limits(Method::POST, POSTS).json(&json!({"Title": "x"})),
        &|| at_limits(Method::PUT, &blocks_path(&drafts[0])).json(&content([text_block("x")])),
    ];
    let mut codes: BTreeSet<_> = join_all(requests.map(code_in_each_language)).await.into_iter().collect();
    sql.batch_execute("alter table post_search rename to lost").await.unwrap();
    codes.insert(code_in_each_language(|| request(Method::GET, POSTS)).await);
    sql.batch_execute("begin; lock table post in access exclusive mode").await.unwrap();
    codes.insert(code_in_each_language(|| request(Method::GET, &format!("{POSTS}?Mine=true"))).await);
    assert_eq!(codes, documented_codes());
}
