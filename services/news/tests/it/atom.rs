//! The Atom feed.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use testkit::client::{Response, send};
use testkit::eventually;
use testkit::issuer::CLIENTS;
use testkit::service::Running;

use crate::{
    CREATE_COMPANY, MANAGE_OWN, POSTS, author, author_of, guid, path, publish_as, service, text, text_block,
    unique_word,
};

const FEED: &str = "/api/v1/posts/feed/atom";

/// Reads the feed until `is_expected` accepts it, since it is cached for seconds.
async fn wait_for_feed(path: &str, is_expected: impl Fn(&str) -> bool) -> Response {
    eventually("the feed is current", async || {
        let feed = service().guest().get(path).await;
        (feed.status == 200 && is_expected(&feed.text)).then_some(feed)
    })
    .await
}

/// RULE-NWS-079: the feed of a company has its published posts as Atom, the last changed first, and
/// contains their changes within seconds.
#[tokio::test]
async fn company_feed_contains_changes_of_its_posts() {
    let company = guid();
    let author = author_of(service(), guid(), &|claims| {
        claims.company(company).permission(MANAGE_OWN).permission(CREATE_COMPANY)
    });
    let metadata = |title: &str| json!({"Title": title, "Summary": "Short & <b>", "Tags": ["сад"], "AuthorCompanyId": company});
    let first = publish_as(&author, metadata("Spring \u{1}<sale>"), "x").await;
    let second = publish_as(&author, metadata("Summer"), "x").await;
    let feed = format!("{FEED}?AuthorCompanyId={company}");

    let read = wait_for_feed(&feed, |xml| xml.contains(&first) && xml.contains(&second)).await;

    assert_eq!(read.header("content-type"), "application/atom+xml; charset=utf-8");
    let shown = author.read(&first).await;
    for expected in [
        "<feed xmlns=\"http://www.w3.org/2005/Atom\">".to_owned(),
        format!("<id>urn:uuid:{company}</id>"),
        format!("<id>urn:uuid:{first}</id>"),
        "Spring &lt;sale&gt;".to_owned(),
        "Short &amp; &lt;b&gt;".to_owned(),
        "term=\"сад\"".to_owned(),
        format!("href=\"{}\"", path(&first)),
        format!("<name>{}</name>", text(&shown["AuthorId"])),
    ] {
        assert!(read.text.contains(&expected), "{expected}: {}", read.text);
    }
    assert!(!read.text.contains(&author.id.to_string()), "RULE-NWS-055");
    assert!(read.text.find(&second) < read.text.find(&first), "the last changed is first");
    assert_eq!(read.text.matches("<entry>").count(), 2);

    author.set_blocks(&first, [text_block("changed")]).await.expect(200);
    let is_first = |xml: &str| xml.contains(&first) && xml.find(&first) < xml.find(&second);
    let changed = wait_for_feed(&feed, is_first).await;
    assert_ne!(changed.header("etag"), read.header("etag"), "a change of the content changes the tag");
    author.change_status(&first, "unpublish").await.expect(200);
    author.news.delete(&path(&second)).await.expect(204);
    wait_for_feed(&feed, |xml| !xml.contains("<entry>")).await;
}

/// RULE-NWS-079, RULE-ALL-071: a guest with the current feed gets 304, and the feed without a
/// company has posts of every author.
#[tokio::test]
async fn current_feed_is_not_sent_again() {
    let (author, title) = (author(), unique_word());
    let post = publish_as(&author, json!({"Title": title}), "x").await;
    wait_for_feed(FEED, |xml| xml.contains(&title) && xml.contains(&post)).await;
    let (guest, empty) = (service().guest(), format!("{FEED}?AuthorCompanyId={}", guid()));
    let read = guest.get(&empty).await;
    let tag = read.header("etag").to_owned();
    assert_eq!((read.status, read.header("cache-control")), (200, "public, max-age=0, must-revalidate"));
    // The cached feed is older than its maximum age of 5 s, so the service reads it again.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let again = send(guest.request(Method::GET, &empty).header("if-none-match", &tag)).await;
    assert_eq!((again.status, &*again.text), (304, ""), "the tag is stable");
    let refused = guest.get(&format!("{FEED}?AuthorCompanyId=x")).await;
    refused.expect_refusal("VALIDATION_FAILED", "/AuthorCompanyId", "invalid_type");
    guest.get(&format!("{POSTS}/feed")).await.expect_problem(404, "NOT_FOUND");
}

/// RULE-NWS-079: readers within seconds share one read of the database.
#[tokio::test]
async fn feed_is_cached_for_seconds() {
    let settings = [("SELECTIONS_URL", "http://127.0.0.1:1"), ("CLIENT_SECRET", CLIENTS[0].1)];
    let news = Running::start::<news::Service>(&settings);
    let sql = news.sql().await;
    let before = news.guest().get(FEED).await;
    sql.batch_execute("alter table post_search rename to moved").await.unwrap();
    let cached = news.guest().get(FEED).await;
    assert_eq!((cached.status, cached.text), (200, before.text));
    sql.batch_execute("alter table moved rename to post_search").await.unwrap();
}
