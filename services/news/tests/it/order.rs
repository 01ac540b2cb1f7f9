//! Order of the rules of the blocks edit: if a request violates two, the earlier rule is reported.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;
use testkit::faults::Fault;

use crate::detach::{make_due, wait_until_settled};
use crate::{
    author, blocks_path, content, embed, embed_snapshot, formatted, gallery, guid, proxy, service, take_path,
    text_block, with,
};

/// RULE-NWS-016: 401 precedes all other checks.
#[tokio::test]
async fn missing_token_precedes_every_other_check() {
    let author = author();
    let post = author.create_post().await;
    let missing = guid().to_string();
    for post in [&post, &missing] {
        for body in ["{", "{\"Blocks\":[{}]}", "{\"Blocks\":[]}"] {
            let request = service().guest().request(Method::PUT, &blocks_path(post));
            let response = send(request.header("content-type", "application/json").body(body)).await;
            response.expect_problem(401, "UNAUTHORIZED");
        }
    }
}

/// RULE-NWS-001: rule 1 precedes rule 2.
#[tokio::test]
async fn too_many_blocks_precede_invalid_ones() {
    let author = author();
    let post = author.create_post().await;
    let id = guid().to_string();
    let broken = [
        text_block(""),
        json!({}),
        Value::Null,
        json!({"Kind": "Film"}),
        gallery(0),
        with(text_block("x"), "BlockId", id.as_str()),
        with(text_block("x"), "BlockId", id.as_str()),
        json!({"Kind": "SelectionEmbed"}),
    ];
    let mut blocks: Vec<Value> = vec![with(text_block("x"), "SortOrder", 0); 193];
    blocks.extend(broken);
    let all = author.news.put(&blocks_path(&post), json!({"Blocks": blocks.clone()})).await;
    all.expect_problem(400, "NEWS_TOO_MANY_BLOCKS");
    blocks.remove(0);
    let refused = author.news.put(&blocks_path(&post), json!({"Blocks": blocks})).await;
    refused.expect_problem(400, "VALIDATION_FAILED");
}

/// RULE-NWS-008: rules 1 and 2 precede rule 3 for a missing post.
#[tokio::test]
async fn invalid_body_precedes_a_missing_post() {
    let author = author();
    let missing = guid().to_string();
    let too_many = author.set_blocks(&missing, vec![text_block("x"); 201]).await;
    too_many.expect_problem(400, "NEWS_TOO_MANY_BLOCKS");
    for block in [text_block(""), gallery(51), json!({"Kind": "SelectionEmbed"})] {
        author.set_blocks(&missing, [block]).await.expect_problem(400, "VALIDATION_FAILED");
    }
    author.set_blocks(&missing, [text_block("x")]).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
}

/// RULE-NWS-008, RULE-ALL-030: rules 1 and 2 precede rules 3 and 4.
#[tokio::test]
async fn invalid_body_precedes_an_archived_or_foreign_post() {
    let (author, stranger) = (author(), author());
    let (draft, archived) = (author.create_post().await, author.create_post().await);
    author.change_status(&archived, "archive").await.expect(200);
    for (caller, post, status, code) in [
        (&stranger, &draft, 403, "FORBIDDEN"),
        (&author, &archived, 409, "NEWS_POST_ARCHIVED"),
        (&stranger, &archived, 409, "NEWS_POST_ARCHIVED"),
    ] {
        let too_many = caller.set_blocks(post, vec![text_block("x"); 201]).await;
        too_many.expect_problem(400, "NEWS_TOO_MANY_BLOCKS");
        caller.set_blocks(post, [text_block("")]).await.expect_problem(400, "VALIDATION_FAILED");
        caller.set_blocks(post, [text_block("x")]).await.expect_problem(status, code);
    }
}

/// RULE-NWS-008, RULE-NWS-046: a deleted post returns the same 404 as a missing one.
#[tokio::test]
async fn deleted_post_returns_404_like_a_missing_one() {
    let (author, stranger) = (author(), author());
    let post = author.create_post().await;
    author.news.delete(&crate::path(&post)).await.expect(204);
    for caller in [&author, &stranger] {
        caller.set_blocks(&post, [text_block("x")]).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    }
}

/// INV-NWS-007, RULE-NWS-047: rule 3 precedes rule 4.
#[tokio::test]
async fn archived_post_precedes_missing_permission() {
    let (author, stranger) = (author(), author());
    let post = author.create_post_of([text_block("x")]).await;
    stranger.set_blocks(&post, []).await.expect_problem(403, "FORBIDDEN");
    author.change_status(&post, "archive").await.expect(200);
    for caller in [&author, &stranger] {
        caller.set_blocks(&post, []).await.expect_problem(409, "NEWS_POST_ARCHIVED");
    }
}

/// RULE-NWS-008: Draft, Published and Unpublished posts can be edited.
#[tokio::test]
async fn post_of_every_status_but_archived_can_be_edited() {
    let author = author();
    let post = author.create_post().await;
    for to in ["publish", "unpublish", "archive"] {
        author.set_blocks(&post, [text_block(to)]).await.expect(200);
        author.change_status(&post, to).await.expect(200);
    }
    author.set_blocks(&post, [text_block("x")]).await.expect_problem(409, "NEWS_POST_ARCHIVED");
    assert_eq!(author.read(&post).await["Blocks"][0]["Text"], "archive");
}

/// INV-NWS-007: rules 3 and 4 precede the calls of rules 6 and 7.
#[tokio::test]
async fn refused_edit_makes_no_call() {
    let (author, stranger) = (author(), author());
    let post = author.create_post().await;
    let (selection, snapshot) = (stranger.create_selection().await, guid().to_string());
    let blocks = || [embed(&selection), embed_snapshot(&snapshot)];
    stranger.set_blocks(&guid().to_string(), blocks()).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    stranger.set_blocks(&post, blocks()).await.expect_problem(403, "FORBIDDEN");
    author.change_status(&post, "archive").await.expect(200);
    stranger.set_blocks(&post, blocks()).await.expect_problem(409, "NEWS_POST_ARCHIVED");
    author.set_blocks(&post, blocks()).await.expect_problem(409, "NEWS_POST_ARCHIVED");
    let calls = proxy().calls(&selection).len() + proxy().calls(&snapshot).len();
    assert_eq!(calls, 0);
}

/// RULE-NWS-010: all checks of rule 6 precede the calls of rule 7.
#[tokio::test]
async fn invalid_snapshot_precedes_the_taking_of_sources() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let missing = guid().to_string();
    let missing_source = guid().to_string();
    for blocks in [
        [embed(&selection), embed_snapshot(&missing)],
        [embed_snapshot(&missing), embed(&selection)],
        [embed(&missing_source), embed_snapshot(&missing)],
    ] {
        author.set_blocks(&post, blocks).await.expect_problem(422, "NEWS_SNAPSHOT_INVALID");
    }
    // The job that settles claims also takes no source.
    make_due(service(), &post).await;
    wait_until_settled(service(), &post).await;
    assert_eq!(proxy().calls(&selection).len() + proxy().calls(&missing_source).len(), 0);
}

/// INV-NWS-007: rule 4 holds for an edit that needs no call.
#[tokio::test]
async fn edit_without_calls_needs_permission() {
    let (author, stranger) = (author(), author());
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    stranger.set_blocks(&post, [embed_snapshot(&snapshot)]).await.expect_problem(403, "FORBIDDEN");
    stranger.set_blocks(&post, []).await.expect_problem(403, "FORBIDDEN");
    stranger.set_blocks(&post, [formatted("Html", "<b>x</b>")]).await.expect_problem(403, "FORBIDDEN");
    assert_eq!(author.read(&post).await["Blocks"][0]["SnapshotId"], snapshot);
}

/// RULE-NWS-011: failures are returned in block order, although the calls run concurrently.
#[tokio::test]
async fn first_failed_block_is_reported_before_a_faster_failure() {
    let author = author();
    let (post, slow) = (author.create_post().await, author.create_selection().await);
    author.delete_selection(&slow).await;
    let unavailable = guid().to_string();
    proxy().inject(take_path(&unavailable), Fault::problem(400, "SELECTIONS_NEWER_THAN_US"));
    let gate = proxy().hold_response(take_path(&slow));
    let edit = author.set_blocks(&post, [embed(&slow), embed(&unavailable)]);
    let (refused, ()) = futures_util::future::join(edit, async {
        gate.arrived().await;
        gate.open();
    })
    .await;
    refused.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
}

/// RULE-NWS-008: an id in a path that does not parse returns 404.
#[tokio::test]
async fn path_without_a_guid_is_not_found() {
    let author = author();
    for segment in ["x", "1", "00000000-0000-0000-0000-00000000000", "%00"] {
        author.set_blocks(segment, []).await.expect_problem(404, "NOT_FOUND");
        assert_eq!(author.news.get(&crate::path(segment)).await.status, 404);
    }
    author
        .news
        .put(&blocks_path(&guid().to_string()), content([]))
        .await
        .expect_problem(404, "NEWS_POST_NOT_FOUND");
}
