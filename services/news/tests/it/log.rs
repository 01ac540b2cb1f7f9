//! The log of a post: the domain events of its content.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;
use testkit::forged;
use testkit::issuer::Claims;

use crate::{MANAGE, MANAGE_OWN, POSTS, author, author_of, each, guid, path, service, text, text_block};

fn log_path(post: &str) -> String {
    format!("{POSTS}/{post}/events")
}

/// RULE-NWS-061: each change of the content has one entry, named as the domain event, with its
/// user and its version. Other changes and repeats have none.
#[tokio::test]
async fn each_change_of_the_content_has_one_log_entry() {
    let author = author();
    let editor = author_of(service(), guid(), &|claims| claims.permission(MANAGE));
    let post = author.create_post().await;
    assert_eq!(author.news.get(&log_path(&post)).await.expect(200), json!({"Items": [], "NextCursor": null}));
    author.set_blocks(&post, [text_block("a")]).await.expect(200);
    author.set_blocks(&post, [text_block("a")]).await.expect(200);
    author.news.put(&path(&post), json!({"Title": "x"})).await.expect(200);
    author.change_status(&post, "publish").await.expect(200);
    editor.set_blocks(&post, [text_block("a"), text_block("b")]).await.expect(200);
    let changed_at = author.read(&post).await["UpdatedAt"].take();

    let log = author.news.get(&log_path(&post)).await.expect(200);

    assert_eq!(each(&log["Items"], "Version"), [5, 2]);
    assert_eq!(
        log["Items"][0],
        json!({
            "Kind": "PostContentChangedEvent", "ActorUserId": editor.id, "BlocksCount": 2, "Version": 5,
            "OccurredAt": changed_at,
        })
    );
    assert_eq!(log["Items"][1]["ActorUserId"], author.id.to_string());
    assert_eq!(log["NextCursor"], Value::Null);
}

/// RULE-NWS-061: the log is read in pages, and a cursor of another post is refused.
#[tokio::test]
async fn log_is_read_in_pages() {
    let author = author();
    let (post, other) = (author.create_post().await, author.create_post().await);
    for n in 0..5 {
        author.set_blocks(&post, [text_block(&n.to_string())]).await.expect(200);
    }
    let (mut versions, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = author.news.get(&format!("{}?PageSize=2{cursor}", log_path(&post))).await.expect(200);
        versions.extend(each(&page["Items"], "Version").into_iter().cloned());
        let Some(next) = page["NextCursor"].as_str() else { break };
        cursor = format!("&Cursor={next}");
    }
    assert_eq!(versions, [6, 5, 4, 3, 2]);
    let page = author.news.get(&format!("{}?PageSize=2", log_path(&post))).await.expect(200);
    let foreign = format!("{}?Cursor={}", log_path(&other), text(&page["NextCursor"]));
    author.news.get(&foreign).await.expect_refusal("VALIDATION_FAILED", "/Cursor", "unknown_value");
}

/// RULE-NWS-061: those who may edit the post read its log, and the database refuses changes of the
/// log.
#[tokio::test]
async fn log_is_append_only_and_read_by_editors() {
    let (author, stranger) = (author(), author());
    let post = author.publish_post().await;
    stranger.news.get(&log_path(&post)).await.expect_problem(403, "FORBIDDEN");
    service().guest().get(&log_path(&post)).await.expect_problem(401, "UNAUTHORIZED");
    let draft = author.create_post().await;
    stranger.news.get(&log_path(&draft)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    let sql = service().sql().await;
    for change in ["update post_log set version = 9", "delete from post_log", "truncate post_log"] {
        let refused = sql.batch_execute(change).await.expect_err(change);
        assert_eq!(refused.code().expect("a refusal of the database").code(), "23001", "{change}");
    }
    author.news.delete(&path(&post)).await.expect(204);
    author.news.get(&log_path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
}

/// RULE-NWS-062: an invalid token is 401 for a post, where an editor sees more than a guest. The
/// feed is the same for all callers and ignores the token.
#[tokio::test]
async fn invalid_token_is_refused_at_a_post_and_not_at_the_feed() {
    let author = author();
    let (published, draft) = (author.publish_post().await, author.create_post().await);
    let claims = Claims::user(author.id).permission(MANAGE_OWN);
    for (flaw, token) in forged::tokens(&claims) {
        let caller = service().bearer(&token);
        for post in [&published, &draft, &guid().to_string()] {
            let refused = caller.get(&path(post)).await;
            assert_eq!((refused.status, &refused.body["code"]), (401, &json!("UNAUTHORIZED")), "{flaw}");
        }
        assert_eq!(caller.get(POSTS).await.status, 200, "{flaw}");
    }
    service().guest().get(&path(&published)).await.expect(200);
    service().guest().get(&path(&draft)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
}

/// RULE-ALL-095: a creation names the new post in `Location`, also in a repeat.
#[tokio::test]
async fn creation_returns_the_location_of_the_post() {
    let author = author();
    let key = guid().to_string();
    for _ in 0..2 {
        let request = author.news.request(Method::POST, POSTS).json(&json!({"Title": "x"}));
        let created = send(request.header("Idempotency-Key", &key)).await;
        let location = created.header("location").to_owned();
        let created = created.expect(201);
        assert_eq!(location, path(text(&created["Id"])));
        assert_eq!(author.news.get(&location).await.expect(200)["Id"], created["Id"]);
    }
}
