//! The life of a post: written, renamed, shown, taken back, put away, deleted.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use futures_util::stream;
use news::Service;
use reqwest::{Body, Method, RequestBuilder};
use serde_json::{Value, json};
use testkit::client::{Client, send};
use testkit::faults::Fault;
use testkit::issuer::CLIENTS;
use testkit::service::Running;

use crate::{
    Author, CREATE_COMPANY, MANAGE, MANAGE_OWN, POSTS, author, author_at, author_of, between, blocks_path,
    content, detached, embed, embed_snapshot, formatted, guid, path, read_snapshot, service, taking, text,
    text_block,
};

const INVALID: &str = "VALIDATION_FAILED";

fn caller(permissions: &[&str], company: Option<uuid::Uuid>) -> Client {
    author_of(service(), guid(), &|mut claims| {
        claims.company_id = company;
        permissions.iter().fold(claims, |claims, permission| claims.permission(*permission))
    })
    .news
}

#[tokio::test]
async fn a_post_with_an_embed_is_written_published_and_read_by_a_guest() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let saved = author.set_blocks(&post, [text_block("Весна пришла"), embed(&selection)]).await.expect(200);
    service().guest().get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");

    author.move_post(&post, "publish").await.expect(200);

    let read = service().guest().get(&path(&post)).await.expect(200);
    assert_eq!(read["Blocks"][1]["SnapshotId"], saved["EmbedSnapshotIds"][0]);
    assert_eq!(read["Blocks"][1]["Items"].as_array().map(Vec::len), Some(3));
    assert_eq!(read, author.read(&post).await);
}

/// News: the members of a post.
#[tokio::test]
async fn a_new_post_is_an_empty_draft() {
    let author = author();
    let body =
        json!({"Title": "Весна", "Summary": "Коротко", "CoverFileId": guid(), "Tags": ["дом", "сад", "дом"]});
    let post = author.news.post(POSTS, body.clone()).await.expect(201);
    for member in ["Title", "Summary", "CoverFileId", "Tags"] {
        assert_eq!(post[member], body[member]);
    }
    for member in ["AuthorUserId", "CreatedByUserId", "UpdatedByUserId"] {
        assert_eq!(post[member], author.id.to_string(), "{member}");
    }
    assert_eq!(
        (&post["Status"], &post["Blocks"], &post["Version"]),
        (&json!("Draft"), &json!([]), &json!(1))
    );
    for member in ["TenantId", "AuthorCompanyId", "PublishedAt", "DeletedAt"] {
        assert_eq!(post.get(member), Some(&Value::Null), "{member}");
    }
    assert!(text(&post["CreatedAt"]).ends_with('Z') && post["CreatedAt"] == post["UpdatedAt"]);
    assert_eq!(author.read(text(&post["Id"])).await, post);
    let bare = author.news.post(POSTS, json!({"Title": "x"})).await.expect(201);
    assert_eq!(
        (&bare["Summary"], &bare["CoverFileId"], &bare["Tags"]),
        (&Value::Null, &Value::Null, &json!([]))
    );
}

/// Tenancy: a post's `TenantId` is its `AuthorCompanyId`, which must be the token's company.
#[tokio::test]
async fn a_company_post_is_written_for_ones_own_company() {
    let company = guid();
    let body = json!({"Title": "x", "AuthorCompanyId": company});
    let manager = caller(&[CREATE_COMPANY], Some(company));
    let post = manager.post(POSTS, body.clone()).await.expect(201);
    assert_eq!((&post["AuthorCompanyId"], &post["TenantId"]), (&json!(company), &json!(company)));
    for other in [
        caller(&[CREATE_COMPANY], Some(guid())),
        caller(&[CREATE_COMPANY], None),
        caller(&[MANAGE_OWN], Some(company)),
        caller(&[MANAGE], Some(company)),
    ] {
        other.post(POSTS, body.clone()).await.expect_problem(403, "FORBIDDEN");
    }
}

/// News: a personal post takes `news.posts.manage-own`.
#[tokio::test]
async fn a_personal_post_takes_its_permission() {
    let body = json!({"Title": "x", "AuthorCompanyId": null});
    caller(&[MANAGE_OWN], None).post(POSTS, body.clone()).await.expect(201);
    caller(&[&format!("{MANAGE_OWN}@organization")], None).post(POSTS, body.clone()).await.expect(201);
    for other in [
        caller(&[], None),
        caller(&[CREATE_COMPANY], Some(guid())),
        caller(&["news.posts.manage-own-not"], None),
        caller(&["news.posts"], None),
        caller(&["NEWS.POSTS.MANAGE-OWN"], None),
    ] {
        other.post(POSTS, body.clone()).await.expect_problem(403, "FORBIDDEN");
    }
}

/// Conventions, Check order: 401, then 403, then the body.
#[tokio::test]
async fn who_may_not_write_learns_nothing_of_the_body() {
    for (caller, status, code) in
        [(service().guest(), 401, "UNAUTHORIZED"), (caller(&[], None), 403, "FORBIDDEN")]
    {
        for (kind, body) in
            [("application/json", "{"), ("text/plain", "x"), ("application/json", "{\"Title\":\"\"}")]
        {
            let request = caller.request(Method::POST, POSTS).header("content-type", kind).body(body);
            send(request).await.expect_problem(status, code);
        }
    }
}

/// News: `Title 1..256, Summary? 1000, Tags ≤20`, in creation and change alike.
#[tokio::test]
async fn metadata_keeps_its_limits() {
    let author = author();
    let existing = author.create_post().await;
    let long = |count: usize| "🏠".repeat(count);
    let tags = |count: usize| vec!["x"; count];
    for good in [
        json!({"Title": long(1), "Summary": "", "Tags": tags(0)}),
        json!({"Title": long(256), "Summary": long(1000), "Tags": tags(20)}),
        json!({"Title": "x", "Summary": null, "Tags": [long(64)]}),
    ] {
        author.news.post(POSTS, good.clone()).await.expect(201);
        let changed = author.news.put(&path(&existing), good.clone()).await.expect(200);
        assert_eq!(
            (&changed["Title"], &changed["Summary"], &changed["Tags"]),
            (&good["Title"], &good["Summary"], &good["Tags"])
        );
    }
    for (bad, field, reason) in [
        (json!({}), "/Title", "required"),
        (json!({"Title": null}), "/Title", "invalid_type"),
        (json!({"Title": ""}), "/Title", "too_short"),
        (json!({"Title": long(257)}), "/Title", "too_long"),
        (json!({"Title": "a\0"}), "/Title", "forbidden_character"),
        (json!({"Title": "x", "Summary": long(1001)}), "/Summary", "too_long"),
        (json!({"Title": "x", "Tags": tags(21)}), "/Tags", "too_many"),
        (json!({"Title": "x", "Tags": ["ok", ""]}), "/Tags/1", "too_short"),
        (json!({"Title": "x", "Tags": [long(65)]}), "/Tags/0", "too_long"),
        (json!({"Title": "x", "Tags": [7]}), "/Tags/0", "invalid_type"),
        (json!({"Title": "x", "CoverFileId": "x"}), "/CoverFileId", "invalid_type"),
    ] {
        author.news.post(POSTS, bad.clone()).await.expect_refusal(INVALID, field, reason);
        author.news.put(&path(&existing), bad).await.expect_refusal(INVALID, field, reason);
    }
    let company = author.news.post(POSTS, json!({"Title": "x", "AuthorCompanyId": "x"})).await;
    company.expect_refusal(INVALID, "/AuthorCompanyId", "invalid_type");
}

/// `PUT /posts/{id}`: metadata is replaced whole, the content stays.
#[tokio::test]
async fn metadata_is_replaced_whole() {
    let author = author();
    let full = json!({"Title": "a", "Summary": "b", "CoverFileId": guid(), "Tags": ["c"]});
    let post = author.news.post(POSTS, full).await.expect(201);
    let id = text(&post["Id"]);
    author.set_blocks(id, [text_block("kept")]).await.expect(200);
    let forged = json!({"Title": "d", "Status": "Published", "AuthorUserId": guid(), "AuthorCompanyId": guid(), "Blocks": []});

    let changed = author.news.put(&path(id), forged).await.expect(200);

    assert_eq!(changed, author.read(id).await);
    assert_eq!(
        (&changed["Title"], &changed["Summary"], &changed["Tags"]),
        (&json!("d"), &Value::Null, &json!([]))
    );
    assert_eq!((&changed["Status"], &changed["AuthorUserId"]), (&json!("Draft"), &post["AuthorUserId"]));
    assert_eq!((&changed["AuthorCompanyId"], &changed["Blocks"][0]["Text"]), (&Value::Null, &json!("kept")));
    assert_eq!(changed["Version"], 3);
}

/// Conventions, Concurrency: a `Version` that is no longer the current one loses, and nothing is kept.
#[tokio::test]
async fn metadata_of_a_stale_version_is_a_conflict() {
    let author = author();
    let post = author.create_post().await;
    author.news.put(&path(&post), json!({"Title": "a", "Version": 1})).await.expect(200);
    for stale in [1, 3, 0, -1] {
        let refused = author.news.put(&path(&post), json!({"Title": "b", "Version": stale})).await;
        refused.expect_problem(409, "CONCURRENCY_CONFLICT");
    }
    assert_eq!(author.read(&post).await["Title"], "a");
    author.news.put(&path(&post), json!({"Title": "b", "Version": 2})).await.expect(200);
    for wrong in [json!("2"), json!(1.5), json!(true)] {
        let refused = author.news.put(&path(&post), json!({"Title": "b", "Version": wrong})).await;
        refused.expect_refusal(INVALID, "/Version", "invalid_type");
    }
}

/// The same metadata again changes nothing, so that whoever repeats it with the version of then has no opponent.
#[tokio::test]
async fn the_same_metadata_changes_nothing() {
    let author = author();
    let full = json!({"Title": "a", "Summary": "b", "CoverFileId": guid(), "Tags": ["c"], "Version": 1});
    let post = author.create_post().await;
    let changed = author.news.put(&path(&post), full.clone()).await.expect(200);
    assert_eq!(changed["Version"], 2);
    assert_eq!(author.news.put(&path(&post), full).await.expect(200), changed);
    assert_eq!(author.read(&post).await, changed);
}

/// Conventions, Check order: the body, then the post, then who asks, then its state; the blocks edit alone has another.
#[tokio::test]
async fn a_refusal_comes_in_its_order() {
    let (author, stranger) = (author(), author());
    let (post, missing) = (author.create_post().await, guid().to_string());
    author.move_post(&post, "archive").await.expect(200);
    let renamed = async |who: &Author, post: &str, body: Value| who.news.put(&path(post), body).await;
    let good = || json!({"Title": "y", "Version": 9});
    for (who, post) in [(&stranger, &missing), (&stranger, &post), (&author, &post)] {
        renamed(who, post, json!({"Title": ""})).await.expect_problem(400, INVALID);
    }
    renamed(&stranger, &missing, good()).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    renamed(&stranger, &post, good()).await.expect_problem(403, "FORBIDDEN");
    renamed(&author, &post, good()).await.expect_problem(409, "NEWS_POST_ARCHIVED");
    for to in ["publish", "unpublish", "archive"] {
        stranger.move_post(&missing, to).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
        stranger.move_post(&post, to).await.expect_problem(403, "FORBIDDEN");
        author.move_post(&post, to).await.expect_problem(409, "NEWS_POST_ARCHIVED");
    }
}

/// Returns every code that the service documents.
fn documented_codes() -> BTreeSet<String> {
    let openapi = ::service::contracts::<Service>().unwrap().openapi;
    openapi.lines().filter_map(|line| line.trim().strip_prefix("code: ")).map(str::to_owned).collect()
}

/// Sends a request in each language and returns the code, which is the same in all. A language that the service lacks gets
/// English.
async fn code_in_each_language(request: impl Fn() -> RequestBuilder) -> String {
    let languages = ["en", "ru", "fr"];
    let answers = languages.map(|language| send(request().header("accept-language", language)));
    let answers = join_all(answers).await;
    let cyrillic = |words: &Value| text(words).chars().any(|c| ('а'..='я').contains(&c));
    for (answer, language) in answers.iter().zip(languages) {
        let is_russian = language == "ru";
        assert_eq!(answer.header("content-language"), if is_russian { "ru" } else { "en" });
        assert_eq!(answer.body["code"], answers[0].body["code"]);
        assert_eq!(cyrillic(&answer.body["title"]), is_russian, "{}", answer.text);
        let detail = &answer.body["detail"];
        assert!(detail.is_null() || cyrillic(detail) == is_russian, "{}", answer.text);
        for error in answer.body["errors"].as_array().unwrap() {
            assert_eq!(cyrillic(&error["message"]), is_russian, "{}", answer.text);
        }
    }
    text(&answers[0].body["code"]).to_owned()
}

/// Conventions, Errors: every problem that the service documents is in the caller's language.
#[tokio::test]
async fn every_documented_problem_is_in_the_callers_language() {
    let news = Running::start::<Service>(&[
        ("SELECTIONS_URL", &between().url()),
        ("CLIENT_SECRET", CLIENTS[0].1),
        ("GUEST_READS_PER_MINUTE", "1"),
        ("DATABASE_STATEMENT_TIMEOUT_MS", "2000"),
    ]);
    let (author, guest) = (author_at(&news), news.guest());
    let (draft, archived) = (author.create_post().await, author.create_post().await);
    author.move_post(&archived, "archive").await.expect(200);
    let (missing, unavailable) = (guid().to_string(), guid().to_string());
    guest.get(&path(&missing)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    let empty = author.selections.post("/api/v1/selections", json!({"Title": "Empty"})).await.expect(201);
    between().on(taking(&unavailable), Fault::problem(400, "SELECTIONS_NEWER_THAN_US"));

    let ask = |method: Method, path: &str| author.news.request(method, path);
    let edit = |block: Value| ask(Method::PUT, &blocks_path(&draft)).json(&content([block]));
    let rename = |post: &str, body: Value| ask(Method::PUT, &path(post)).json(&body);
    let stalled = || Body::wrap_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let nested = "<div>".repeat(300);
    let requests: [&dyn Fn() -> RequestBuilder; 20] = [
        &|| guest.request(Method::POST, POSTS),
        &|| guest.request(Method::GET, &path(&missing)),
        &|| news.user().1.request(Method::PUT, &path(&draft)).json(&json!({"Title": "x"})),
        &|| ask(Method::PUT, &path("x")),
        &|| ask(Method::POST, POSTS),
        &|| ask(Method::POST, POSTS).header("content-type", "application/json").body(stalled()),
        &|| rename(&draft, json!({"Title": "x".repeat(256 * 1024)})),
        &|| rename(&missing, json!({"Title": "x"})),
        &|| rename(&archived, json!({"Title": "x"})),
        &|| rename(&draft, json!({"Title": "x", "Version": 9})),
        &|| edit(text_block("")),
        &|| edit(json!({"Kind": "SelectionEmbed"})),
        &|| edit(formatted("Html", &nested)),
        &|| edit(embed(&missing)),
        &|| edit(embed(text(&empty["Id"]))),
        &|| edit(embed(&unavailable)),
        &|| edit(embed_snapshot(&missing)),
        &|| ask(Method::PUT, &blocks_path(&draft)).json(&content(vec![text_block("x"); 201])),
        &|| ask(Method::POST, &format!("{POSTS}/{draft}/publish")),
        &|| ask(Method::POST, &format!("{POSTS}/{draft}/unpublish")),
    ];
    let mut codes: BTreeSet<_> = join_all(requests.map(code_in_each_language)).await.into_iter().collect();
    let sql = news.sql().await;
    sql.batch_execute("alter table post_search rename to lost").await.unwrap();
    codes.insert(code_in_each_language(|| ask(Method::GET, POSTS)).await);
    sql.batch_execute("begin; lock table post in access exclusive mode").await.unwrap();
    codes.insert(code_in_each_language(|| ask(Method::GET, &format!("{POSTS}?Mine=true"))).await);
    assert_eq!(codes, documented_codes());
}

/// News: every move from every state.
#[tokio::test]
async fn a_post_moves_only_where_the_table_lets_it() {
    let author = author();
    let ways: [(&str, &[&str]); 4] = [
        ("Draft", &[]),
        ("Published", &["publish"]),
        ("Unpublished", &["publish", "unpublish"]),
        ("Archived", &["archive"]),
    ];
    for (from, way) in ways {
        for (to, reached) in [("publish", "Published"), ("unpublish", "Unpublished"), ("archive", "Archived")]
        {
            let post = author.create_post_of([text_block("x")]).await;
            for step in way {
                author.move_post(&post, step).await.expect(200);
            }
            let before = author.read(&post).await;
            assert_eq!(before["Status"], from);
            let moved = author.move_post(&post, to).await;
            match (from, to) {
                ("Draft" | "Unpublished", "publish" | "archive") | ("Published", "unpublish") => {
                    assert_eq!(moved.expect(200)["Status"], reached, "{from} {to}");
                    assert_eq!(author.read(&post).await["Version"], before["Version"].as_i64().unwrap() + 1);
                    continue;
                }
                ("Archived", _) => drop(moved.expect_problem(409, "NEWS_POST_ARCHIVED")),
                _ => drop(moved.expect_problem(409, "NEWS_POST_INVALID_TRANSITION")),
            }
            assert_eq!(author.read(&post).await, before, "{from} {to}: a refused move changes nothing");
        }
    }
}

/// News: publishing needs at least one block, at the first time and again.
#[tokio::test]
async fn an_empty_post_is_not_published() {
    let author = author();
    let post = author.create_post().await;
    author.move_post(&post, "publish").await.expect_problem(409, "NEWS_POST_PUBLISH_INCOMPLETE");
    author.set_blocks(&post, [text_block("x")]).await.expect(200);
    author.move_post(&post, "publish").await.expect(200);
    author.move_post(&post, "unpublish").await.expect(200);
    author.set_blocks(&post, []).await.expect(200);
    author.move_post(&post, "publish").await.expect_problem(409, "NEWS_POST_PUBLISH_INCOMPLETE");
    author.move_post(&post, "archive").await.expect(200);
    author.move_post(&post, "publish").await.expect_problem(409, "NEWS_POST_ARCHIVED");
}

/// Publishing again keeps the time of the first time.
#[tokio::test]
async fn a_post_keeps_when_it_was_first_published() {
    let author = author();
    let post = author.publish_post().await;
    let first = author.read(&post).await["PublishedAt"].take();
    assert!(first.is_string());
    author.move_post(&post, "unpublish").await.expect(200);
    assert_eq!(author.read(&post).await["PublishedAt"], first);
    author.move_post(&post, "publish").await.expect(200);
    assert_eq!(author.read(&post).await["PublishedAt"], first);
}

/// Archived is terminal: metadata too.
#[tokio::test]
async fn an_archived_post_is_changed_no_more() {
    let author = author();
    let post = author.create_post_of([text_block("x")]).await;
    author.move_post(&post, "archive").await.expect(200);
    let before = author.read(&post).await;
    author.news.put(&path(&post), json!({"Title": "b"})).await.expect_problem(409, "NEWS_POST_ARCHIVED");
    assert_eq!(author.read(&post).await, before);
    author.news.delete(&path(&post)).await.expect(204);
}

/// `DELETE`: 204, and from then on there is no such post for anybody, in any operation.
#[tokio::test]
async fn a_deleted_post_is_gone() {
    let author = author();
    let post = author.publish_post().await;
    author.news.delete(&path(&post)).await.expect(204);
    let manager = caller(&[MANAGE], None);
    for caller in [&author.news, &manager] {
        caller.delete(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
        caller.get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
        caller.put(&path(&post), json!({"Title": "x"})).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
        for to in ["publish", "unpublish", "archive"] {
            let moved = caller.post(&format!("{POSTS}/{post}/{to}"), Value::Null).await;
            moved.expect_problem(404, "NEWS_POST_NOT_FOUND");
        }
    }
    service().guest().get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
}

/// `DELETE` detaches the snapshots with reason `PostDeleted`; they are not deleted.
#[tokio::test]
async fn a_deleted_post_lets_its_snapshots_go() {
    let author = author();
    let (one, other) = (author.create_selection().await, author.create_selection().await);
    let (post, snapshot) = author.embed(&one).await;
    let saved = author.set_blocks(&post, [embed(&one), embed(&other), embed(&one)]).await.expect(200);
    let (_, elsewhere) = author.embed(&one).await;

    author.news.delete(&path(&post)).await.expect(204);

    for snapshot in [&snapshot, text(&saved["EmbedSnapshotIds"][1])] {
        assert_eq!(detached(snapshot).await, "PostDeleted");
        assert_eq!(read_snapshot(snapshot).await["ItemsCount"], 3);
    }
    assert_eq!(read_snapshot(&elsewhere).await["Status"], "Active");
}
