//! Limits of what one author stores.

use futures_util::future::join_all;
use news::Service;
use serde_json::{Value, json};
use testkit::faults::FaultProxy;
use testkit::issuer::CLIENTS;
use testkit::service::Running;

use crate::{
    Author, CREATE_COMPANY, POSTS, author_at, author_of, embed, guid, path, selections, take_path, text,
    text_block,
};

/// Starts an instance of news with one more setting.
pub fn start_with_limit(name: &str, limit: &str) -> Running {
    let calls = [("SELECTIONS_URL", "http://127.0.0.1:1"), ("CLIENT_SECRET", CLIENTS[0].1)];
    Running::start::<Service>(&[calls[0], calls[1], (name, limit)])
}

/// Returns blocks whose stored size is about this number of KiB.
fn blocks_of(kib: usize) -> Vec<Value> {
    // A text is stored as it was sent and as plain text.
    vec![text_block(&"x".repeat(10 * 1024)); kib / 20]
}

/// RULE-NWS-065, RULE-NWS-067: an author at the limit of drafts creates none, personal or for the
/// company, until a draft is deleted or published.
#[tokio::test]
async fn author_at_the_limit_creates_no_draft() {
    let news = start_with_limit("NEWS_MAX_DRAFTS_PER_AUTHOR", "2");
    let company = guid();
    let author = author_of(&news, guid(), &|mut claims| {
        claims.company_id = Some(company);
        claims.permission("news.posts.manage-own").permission(CREATE_COMPANY)
    });
    let of_company = json!({"Title": "Autumn", "AuthorCompanyId": company});
    let first = author.create_post().await;
    let second = text(&author.news.post(POSTS, of_company.clone()).await.expect(201)["Id"]).to_owned();

    for body in [json!({"Title": "Winter"}), of_company] {
        let refused = author.news.post(POSTS, body).await;
        assert!(text(&refused.body["detail"]).contains("at most 2 drafts"), "{}", refused.text);
        refused.expect_problem(409, "NEWS_DRAFTS_LIMIT_EXCEEDED");
    }
    author_at(&news).create_post().await;

    author.news.delete(&path(&first)).await.expect(204);
    author.create_post().await;
    author.news.post(POSTS, json!({"Title": "x"})).await.expect_problem(409, "NEWS_DRAFTS_LIMIT_EXCEEDED");
    author.set_blocks(&second, [text_block("Весна")]).await.expect(200);
    author.change_status(&second, "publish").await.expect(200);
    author.create_post().await;
}

/// RULE-NWS-065: concurrent requests do not exceed the limit of drafts.
#[tokio::test]
async fn concurrent_drafts_do_not_exceed_the_limit() {
    let news = start_with_limit("NEWS_MAX_DRAFTS_PER_AUTHOR", "3");
    let author = author_at(&news);
    let create = async |_| author.news.post(POSTS, json!({"Title": "Spring"})).await.status;

    let mut statuses = join_all((0..12).map(create)).await;

    statuses.sort_unstable();
    assert_eq!(statuses, [[201; 3].as_slice(), &[409; 9]].concat());
}

/// Writes blocks of about this number of KiB into a post, and returns the status.
async fn write(author: &Author, post: &str, kib: usize) -> u16 {
    author.set_blocks(post, blocks_of(kib)).await.status
}

/// RULE-NWS-066, RULE-NWS-068: the posts of an author grow to the limit together, and may always
/// shrink. Deleted posts count.
#[tokio::test]
async fn author_at_the_limit_writes_no_longer_content() {
    let news = start_with_limit("NEWS_MAX_CONTENT_MIB_PER_AUTHOR", "1");
    let author = author_at(&news);
    let (first, second) = (author.create_post().await, author.create_post().await);
    let refused = author.set_blocks(&first, blocks_of(1100)).await;
    assert!(text(&refused.body["detail"]).contains("at most 1 MiB"), "{}", refused.text);
    refused.expect_problem(409, "NEWS_CONTENT_LIMIT_EXCEEDED");

    assert_eq!(write(&author, &first, 800).await, 200);
    assert_eq!(write(&author, &second, 400).await, 409);
    assert_eq!(write(&author, &second, 200).await, 200);
    let another = author_at(&news);
    let foreign = another.create_post().await;
    assert_eq!(write(&another, &foreign, 800).await, 200, "each author has a limit");

    author.news.delete(&path(&first)).await.expect(204);
    assert_eq!(write(&author, &second, 400).await, 409, "the content of a deleted post stays stored");
    assert_eq!(write(&author, &second, 100).await, 200);
}

/// RULE-NWS-066: an author above a lowered limit may shorten posts, and send them back as they are.
#[tokio::test]
async fn author_above_the_limit_may_shorten_posts() {
    let news = start_with_limit("NEWS_MAX_CONTENT_MIB_PER_AUTHOR", "1");
    let author = author_at(&news);
    let post = author.create_post().await;
    assert_eq!(write(&author, &post, 900).await, 200);
    let sql = news.sql().await;
    let raise = "update author set content_bytes = content_bytes + 5000000 where user_id::text = $1";
    assert_eq!(sql.execute(raise, &[&author.id.to_string()]).await.unwrap(), 1);

    assert_eq!(write(&author, &post, 900).await, 200, "the same content");
    assert_eq!(write(&author, &post, 920).await, 409);
    assert_eq!(write(&author, &post, 800).await, 200);
}

/// RULE-NWS-066: an edit above the limit takes and replaces no snapshot.
#[tokio::test]
async fn refused_edit_calls_selections_for_no_embed() {
    let proxy = FaultProxy::start(selections().internal_url());
    let settings = [
        ("SELECTIONS_URL", proxy.url()),
        ("CLIENT_SECRET", CLIENTS[0].1.to_owned()),
        ("NEWS_MAX_CONTENT_MIB_PER_AUTHOR", "1".to_owned()),
    ];
    let news = Running::start::<Service>(&settings.each_ref().map(|(name, value)| (*name, value.as_str())));
    let author = author_at(&news);
    let (shown, new) = (author.create_selection().await, author.create_selection().await);
    let (post, _) = author.embed(&shown).await;
    let before = author.read(&post).await;

    let mut refreshed = embed(&shown);
    refreshed["Refresh"] = json!(true);
    let blocks = blocks_of(1100).into_iter().chain([refreshed, embed(&new)]);
    author.set_blocks(&post, blocks).await.expect_problem(409, "NEWS_CONTENT_LIMIT_EXCEEDED");

    assert_eq!(author.read(&post).await, before);
    assert_eq!((proxy.calls(take_path(&shown)).len(), proxy.calls(take_path(&new)).len()), (1, 0));
}

/// RULE-NWS-065: 0 disables the limit of drafts.
#[tokio::test]
async fn zero_disables_the_limit_of_drafts() {
    let news = start_with_limit("NEWS_MAX_DRAFTS_PER_AUTHOR", "0");
    let author = author_at(&news);
    for _ in 0..3 {
        author.create_post().await;
    }
}
