//! The rules of the blocks edit in their order: two faults in one request answer the earlier rule.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;
use testkit::faults::Fault;

use crate::detach::{hurry, settled};
use crate::{
    author, between, blocks_path, content, embed, embed_snapshot, formatted, gallery, guid, service, taking,
    text_block, with,
};

/// 401 comes first, whatever else is wrong.
#[tokio::test]
async fn nobody_learns_anything() {
    let author = author();
    let post = author.create_post().await;
    let missing = guid().to_string();
    for post in [&post, &missing] {
        for body in ["{", "{\"Blocks\":[{}]}", "{\"Blocks\":[]}"] {
            let request = service().guest().request(Method::PUT, &blocks_path(post));
            let answer = send(request.header("content-type", "application/json").body(body)).await;
            answer.expect_problem(401, "UNAUTHORIZED");
        }
    }
}

/// Rule 1 before rule 2: a list that is too long is told before what is in it.
#[tokio::test]
async fn too_many_blocks_are_told_before_broken_ones() {
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

/// Rules 1 and 2 before rule 3: a missing post.
#[tokio::test]
async fn the_body_is_told_before_a_missing_post() {
    let author = author();
    let missing = guid().to_string();
    let too_many = author.set_blocks(&missing, vec![text_block("x"); 201]).await;
    too_many.expect_problem(400, "NEWS_TOO_MANY_BLOCKS");
    for block in [text_block(""), gallery(51), json!({"Kind": "SelectionEmbed"})] {
        author.set_blocks(&missing, [block]).await.expect_problem(400, "VALIDATION_FAILED");
    }
    author.set_blocks(&missing, [text_block("x")]).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
}

/// Rules 1 and 2 before rules 3 and 4: a foreign post, an archived one, and one that is both.
#[tokio::test]
async fn the_body_is_refused_before_an_archived_or_foreign_post() {
    let (author, stranger) = (author(), author());
    let (draft, archived) = (author.create_post().await, author.create_post().await);
    author.move_post(&archived, "archive").await.expect(200);
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

/// Rule 3: missing and deleted are the same 404.
#[tokio::test]
async fn a_deleted_post_is_a_missing_one() {
    let (author, stranger) = (author(), author());
    let post = author.create_post().await;
    author.news.delete(&crate::path(&post)).await.expect(204);
    for caller in [&author, &stranger] {
        caller.set_blocks(&post, [text_block("x")]).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    }
}

/// Rule 3 before rule 4: archived is told before foreign.
#[tokio::test]
async fn archived_is_told_before_foreign() {
    let (author, stranger) = (author(), author());
    let post = author.create_post_of([text_block("x")]).await;
    stranger.set_blocks(&post, []).await.expect_problem(403, "FORBIDDEN");
    author.move_post(&post, "archive").await.expect(200);
    for caller in [&author, &stranger] {
        caller.set_blocks(&post, []).await.expect_problem(409, "NEWS_POST_ARCHIVED");
    }
}

/// Rule 3: Draft, Published and Unpublished may be edited.
#[tokio::test]
async fn every_state_but_archived_may_be_edited() {
    let author = author();
    let post = author.create_post().await;
    for to in ["publish", "unpublish", "archive"] {
        author.set_blocks(&post, [text_block(to)]).await.expect(200);
        author.move_post(&post, to).await.expect(200);
    }
    author.set_blocks(&post, [text_block("x")]).await.expect_problem(409, "NEWS_POST_ARCHIVED");
    assert_eq!(author.read(&post).await["Blocks"][0]["Text"], "archive");
}

/// Rules 3 and 4 before rules 6 and 7: who may not edit causes no call.
#[tokio::test]
async fn a_refused_edit_calls_nobody() {
    let (author, stranger) = (author(), author());
    let post = author.create_post().await;
    let (selection, snapshot) = (stranger.create_selection().await, guid().to_string());
    let blocks = || [embed(&selection), embed_snapshot(&snapshot)];
    stranger.set_blocks(&guid().to_string(), blocks()).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    stranger.set_blocks(&post, blocks()).await.expect_problem(403, "FORBIDDEN");
    author.move_post(&post, "archive").await.expect(200);
    stranger.set_blocks(&post, blocks()).await.expect_problem(409, "NEWS_POST_ARCHIVED");
    author.set_blocks(&post, blocks()).await.expect_problem(409, "NEWS_POST_ARCHIVED");
    let calls = between().calls(&selection).len() + between().calls(&snapshot).len();
    assert_eq!(calls, 0);
}

/// Rule 6 for all blocks before any call of rule 7.
#[tokio::test]
async fn an_invalid_snapshot_is_told_before_any_source_is_taken() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let missing = guid().to_string();
    let deleted = guid().to_string();
    for blocks in [
        [embed(&selection), embed_snapshot(&missing)],
        [embed_snapshot(&missing), embed(&selection)],
        [embed(&deleted), embed_snapshot(&missing)],
    ] {
        author.set_blocks(&post, blocks).await.expect_problem(422, "NEWS_SNAPSHOT_INVALID");
    }
    // Nor by whoever looks after what a failed edit may have taken.
    hurry(service(), &post).await;
    settled(service(), &post).await;
    assert_eq!(between().calls(&selection).len() + between().calls(&deleted).len(), 0);
}

/// Rules 1 to 4 hold for kept embeds and texts alone too: no edit slips by because it calls nobody.
#[tokio::test]
async fn an_edit_without_calls_is_checked_alike() {
    let (author, stranger) = (author(), author());
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    stranger.set_blocks(&post, [embed_snapshot(&snapshot)]).await.expect_problem(403, "FORBIDDEN");
    stranger.set_blocks(&post, []).await.expect_problem(403, "FORBIDDEN");
    stranger.set_blocks(&post, [formatted("Html", "<b>x</b>")]).await.expect_problem(403, "FORBIDDEN");
    assert_eq!(author.read(&post).await["Blocks"][0]["SnapshotId"], snapshot);
}

/// Rule 7's failures are told in block order, although the calls run side by side.
#[tokio::test]
async fn a_source_that_fails_at_once_does_not_overtake_an_earlier_one() {
    let author = author();
    let (post, slow) = (author.create_post().await, author.create_selection().await);
    author.delete_selection(&slow).await;
    let unavailable = guid().to_string();
    between().on(taking(&unavailable), Fault::problem(400, "SELECTIONS_NEWER_THAN_US"));
    let gate = between().hold_answer(taking(&slow));
    let edit = author.set_blocks(&post, [embed(&slow), embed(&unavailable)]);
    let (refused, ()) = futures_util::future::join(edit, async {
        gate.arrived().await;
        gate.open();
    })
    .await;
    refused.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
}

/// Conventions, Malformed input: a path Guid that does not parse is 404.
#[tokio::test]
async fn a_path_without_a_guid_leads_nowhere() {
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
