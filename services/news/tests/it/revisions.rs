//! Revisions of the content of a post.

use news::Service;
use serde_json::{Value, json};
use testkit::client::Response;
use testkit::eventually;
use testkit::issuer::CLIENTS;
use testkit::service::Running;

use crate::{
    Author, MANAGE, POSTS, author, author_at, author_of, each, embed, embed_snapshot, guid, list, path,
    proxy, read_snapshot, service, snapshot_path, take_path, text, text_block, wait_until_detached, with,
};

fn revisions_path(post: &str) -> String {
    format!("{POSTS}/{post}/revisions")
}

async fn restore(author: &Author, post: &str, version: i64) -> Response {
    author.news.post(&format!("{}/{version}/restore", revisions_path(post)), json!({})).await
}

async fn versions(author: &Author, post: &str) -> Vec<i64> {
    let page = author.news.get(&format!("{}?PageSize=100", revisions_path(post))).await.expect(200);
    each(&page["Items"], "Version").into_iter().map(|version| version.as_i64().unwrap()).collect()
}

/// RULE-NWS-077: each change of the content has a revision with its author, its time and its
/// blocks. A restored one is a new version.
#[tokio::test]
async fn each_change_has_a_revision_that_can_be_restored() {
    let author = author();
    let editor = author_of(service(), guid(), &|claims| claims.permission(MANAGE));
    let post = author.create_post_of([text_block("first")]).await;
    author.news.put(&path(&post), json!({"Title": "x"})).await.expect(200);
    editor.set_blocks(&post, [text_block("second"), text_block("third")]).await.expect(200);
    author.change_status(&post, "publish").await.expect(200);
    let changed = author.read(&post).await;

    let page = author.news.get(&revisions_path(&post)).await.expect(200);

    assert_eq!(each(&page["Items"], "Version"), [4, 2]);
    let newest = &page["Items"][0];
    assert_eq!((&newest["ActorUserId"], &newest["BlocksCount"]), (&json!(editor.id), &json!(2)));
    assert!(newest["SizeBytes"].as_i64().unwrap() > page["Items"][1]["SizeBytes"].as_i64().unwrap());
    let first = author.news.get(&format!("{}/2", revisions_path(&post))).await.expect(200);
    assert_eq!((&first["ActorUserId"], &first["Version"]), (&json!(author.id), &json!(2)));
    assert_eq!(each(&first["Blocks"], "PlainText"), ["first"]);
    assert_eq!(first["OccurredAt"], page["Items"][1]["OccurredAt"]);

    let restored = restore(&author, &post, 2).await.expect(200);

    assert_eq!((&restored["Version"], &restored["BlocksCount"]), (&json!(6), &json!(1)));
    let read = author.read(&post).await;
    assert_eq!((&read["Blocks"], &read["Status"]), (&first["Blocks"], &json!("Published")));
    assert_eq!(read["UpdatedByUserId"], author.id.to_string());
    assert_ne!(read["Blocks"], changed["Blocks"]);
    assert_eq!(versions(&author, &post).await, [6, 4, 2]);
    let again = restore(&author, &post, 2).await.expect(200);
    assert_eq!(again["Version"], 6, "the same content changes nothing");
}

/// RULE-NWS-077: two revisions are compared block by block.
#[tokio::test]
async fn difference_names_the_changed_blocks() {
    let author = author();
    let post = author.create_post_of(["a", "b", "c"].map(text_block)).await;
    let blocks = author.read(&post).await["Blocks"].take();
    let kept = |at: usize, words: &str| with(text_block(words), "BlockId", blocks[at]["BlockId"].clone());
    author.set_blocks(&post, [text_block("new"), kept(2, "c"), kept(0, "changed")]).await.expect(200);
    let compare = async |version: i64, since: i64| {
        author
            .news
            .get(&format!("{}/{version}/changes?Since={since}", revisions_path(&post)))
            .await
            .expect(200)
    };

    let found = compare(3, 2).await;

    assert_eq!((&found["Since"], &found["Version"]), (&json!(2), &json!(3)));
    let changes = list(&found["Blocks"]).iter().map(|block| {
        let words = |side: &str| block[side]["PlainText"].as_str().unwrap_or("-").to_owned();
        (text(&block["Change"]).to_owned(), words("Before"), words("After"))
    });
    let changes: Vec<_> = changes.collect();
    let expected = [("Added", "-", "new"), ("Changed", "a", "changed"), ("Removed", "b", "-")];
    let expected = expected.map(|(change, before, after)| (change.into(), before.into(), after.into()));
    assert_eq!(changes, expected);
    assert_eq!(found["Blocks"][0]["Before"], Value::Null);
    assert_eq!(compare(2, 2).await["Blocks"], json!([]));
    let back = compare(2, 3).await;
    assert_eq!(list(&back["Blocks"]).last().unwrap()["Change"], "Removed");
    let missing = format!("{}/3/changes?Since=1", revisions_path(&post));
    author.news.get(&missing).await.expect_problem(404, "NEWS_REVISION_NOT_FOUND");
    let absent = format!("{}/3/changes", revisions_path(&post));
    author.news.get(&absent).await.expect_refusal("VALIDATION_FAILED", "/Since", "required");
}

/// RULE-NWS-077: a block in another place is the only difference of a pure move.
#[tokio::test]
async fn moved_block_is_the_only_difference() {
    let author = author();
    let post = author.create_post_of(["a", "b", "c"].map(text_block)).await;
    let blocks = author.read(&post).await["Blocks"].take();
    let kept = [(2, "c"), (0, "a"), (1, "b")]
        .map(|(at, words)| with(text_block(words), "BlockId", blocks[at]["BlockId"].clone()));
    author.set_blocks(&post, kept).await.expect(200);

    let found = author.news.get(&format!("{}/3/changes?Since=2", revisions_path(&post))).await.expect(200);

    assert_eq!(each(&found["Blocks"], "Change"), ["Moved"]);
    assert_eq!(found["Blocks"][0]["BlockId"], blocks[2]["BlockId"]);
}

/// RULE-NWS-077: large contents are compared, too.
#[tokio::test]
async fn large_contents_are_compared() {
    let author = author();
    let post = author.create_post_of([text_block(&"x".repeat(20_000))]).await;
    author.set_blocks(&post, [text_block(&"y".repeat(20_000))]).await.expect(200);
    let found = author.news.get(&format!("{}/3/changes?Since=2", revisions_path(&post))).await.expect(200);
    assert_eq!(each(&found["Blocks"], "Change"), ["Added", "Removed"]);
}

/// RULE-NWS-077: a series of saves of one user keeps one revision in 5 minutes. The content of
/// another user and the content before a removal are always kept.
#[tokio::test]
async fn series_of_saves_keeps_one_revision() {
    let author = author();
    let editor = author_of(service(), guid(), &|claims| claims.permission(MANAGE));
    let post = author.create_post_of([text_block("1")]).await;
    for words in ["2", "3", "4"] {
        author.set_blocks(&post, [text_block(words)]).await.expect(200);
    }
    assert_eq!(versions(&author, &post).await, [5, 2]);
    for version in [3, 4] {
        let path = format!("{}/{version}", revisions_path(&post));
        author.news.get(&path).await.expect_problem(404, "NEWS_REVISION_NOT_FOUND");
        restore(&author, &post, version).await.expect_problem(404, "NEWS_REVISION_NOT_FOUND");
    }
    let sql = service().sql().await;
    let aged =
        "update post_revision set created_at = created_at - interval '6 minutes' where post_id::text = $1";
    assert_eq!(sql.execute(aged, &[&post]).await.unwrap(), 1);
    author.set_blocks(&post, [text_block("5"), text_block("6")]).await.expect(200);
    assert_eq!(versions(&author, &post).await, [6, 5, 2], "after 5 minutes");
    author.set_blocks(&post, [text_block("5")]).await.expect(200);
    assert_eq!(versions(&author, &post).await, [7, 6, 5, 2], "before a removal of a block");
    author.set_blocks(&post, [text_block(&"x".repeat(2_000))]).await.expect(200);
    author.set_blocks(&post, [text_block("x")]).await.expect(200);
    assert_eq!(versions(&author, &post).await, [9, 8, 6, 5, 2], "before a removal of a text");
    editor.set_blocks(&post, [text_block("y")]).await.expect(200);
    assert_eq!(versions(&author, &post).await, [10, 9, 8, 6, 5, 2], "before another user");
    let kept = author.news.get(&format!("{}/6", revisions_path(&post))).await.expect(200);
    assert_eq!(each(&kept["Blocks"], "PlainText"), ["5", "6"]);
}

/// RULE-NWS-078: a restored embed whose snapshot is detached gets a new snapshot of its selection.
/// One that the post still has keeps its snapshot.
#[tokio::test]
async fn restored_embed_never_shows_a_detached_snapshot() {
    let author = author();
    let (left, kept) = (author.create_selection().await, author.create_selection().await);
    let post = author.create_post().await;
    let saved = author.set_blocks(&post, [embed(&left), embed(&kept)]).await.expect(200);
    let [old, stays] = [0, 1].map(|at| text(&saved["EmbedSnapshotIds"][at]).to_owned());
    author.set_blocks(&post, [embed_snapshot(&stays)]).await.expect(200);
    author.delete_selection(&kept).await;
    assert_eq!(wait_until_detached(&old).await, "BlockReplaced");

    let restored = restore(&author, &post, 2).await.expect(200);

    let new = text(&restored["EmbedSnapshotIds"][0]);
    assert!(new != old && restored["EmbedSnapshotIds"][1] == stays, "{restored}");
    assert_eq!(read_snapshot(new).await["Status"], "Active");
    assert_eq!(proxy().calls(take_path(&kept)).len(), 1, "the kept snapshot needs no call");
    let read = author.read(&post).await;
    assert_eq!(list(&read["Blocks"][0]["Items"]).len(), 3);
    let shown = author.news.get(&format!("{}/2", revisions_path(&post))).await.expect(200);
    assert_eq!(
        (&shown["Blocks"][0]["SnapshotId"], &shown["Blocks"][0]["Items"]),
        (&json!(old), &Value::Null)
    );
    let calls = proxy().calls(snapshot_path(&old)).iter().filter(|call| call.method == "GET").count();
    assert_eq!(calls, 0, "a revision shows no items");
}

/// RULE-NWS-078: a revision whose selection is gone is not restored, and the refusal names its
/// block. The post keeps its content.
#[tokio::test]
async fn revision_of_a_deleted_selection_is_refused() {
    let author = author();
    let selection = author.create_selection().await;
    let post = author.create_post_of([text_block("x"), embed(&selection)]).await;
    let snapshot = text(&author.read(&post).await["Blocks"][1]["SnapshotId"]).to_owned();
    author.set_blocks(&post, [text_block("y")]).await.expect(200);
    wait_until_detached(&snapshot).await;
    author.delete_selection(&selection).await;
    let before = author.read(&post).await;
    let refused = restore(&author, &post, 2).await;
    refused.expect_refusal("NEWS_SELECTION_SOURCE_DELETED", "/Blocks/1/SourceSelectionId", "source_deleted");
    assert_eq!(author.read(&post).await, before);
}

/// RULE-NWS-078: an editor does not restore a revision with a selection of the author that the post
/// no longer shows. The author does.
#[tokio::test]
async fn editor_does_not_restore_a_selection_of_the_author() {
    let author = author();
    let editor = author_of(service(), guid(), &|claims| claims.permission(MANAGE));
    let selection = author.create_selection().await;
    let post = author.create_post_of([embed(&selection)]).await;
    let snapshot = text(&author.read(&post).await["Blocks"][0]["SnapshotId"]).to_owned();
    author.set_blocks(&post, [text_block("y")]).await.expect(200);
    wait_until_detached(&snapshot).await;
    let refused = restore(&editor, &post, 2).await;
    refused.expect_refusal("NEWS_SELECTION_SOURCE_DELETED", "/Blocks/0/SourceSelectionId", "source_deleted");
    restore(&author, &post, 2).await.expect(200);
}

/// RULE-NWS-077, RULE-NWS-081: each refused request for a revision returns its own code.
#[tokio::test]
async fn refused_revision_request_returns_its_own_code() {
    let (author, stranger) = (author(), author());
    let post = author.publish_post().await;
    let draft = author.create_post_of([text_block("x")]).await;
    for path in [
        revisions_path(&post),
        format!("{}/2", revisions_path(&post)),
        format!("{}/2/changes?Since=2", revisions_path(&post)),
    ] {
        stranger.news.get(&path).await.expect_problem(403, "FORBIDDEN");
        service().guest().get(&path).await.expect_problem(401, "UNAUTHORIZED");
    }
    stranger.news.get(&revisions_path(&draft)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    restore(&stranger, &post, 2).await.expect_problem(403, "FORBIDDEN");
    for version in [1, 3, 99] {
        restore(&author, &post, version).await.expect_problem(404, "NEWS_REVISION_NOT_FOUND");
        let path = format!("{}/{version}", revisions_path(&post));
        author.news.get(&path).await.expect_problem(404, "NEWS_REVISION_NOT_FOUND");
    }
    author.news.get(&format!("{}/x", revisions_path(&post))).await.expect_problem(404, "NOT_FOUND");
    author.set_blocks(&draft, [text_block("y")]).await.expect(200);
    let outdated = format!("{}/2/restore", revisions_path(&draft));
    let body = json!({"Version": 2});
    author.news.post(&outdated, body).await.expect_problem(409, "CONCURRENCY_CONFLICT");
    author.change_status(&draft, "archive").await.expect(200);
    restore(&author, &draft, 2).await.expect_problem(409, "NEWS_POST_ARCHIVED");
    let foreign = author.news.get(&format!("{}?PageSize=1", revisions_path(&draft))).await.expect(200);
    let foreign = format!("{}?Cursor={}", revisions_path(&post), text(&foreign["NextCursor"]));
    author.news.get(&foreign).await.expect_refusal("VALIDATION_FAILED", "/Cursor", "unknown_value");
}

/// RULE-NWS-082: a post keeps its newest 49 revisions and its present content, and the sizes that
/// the author's row counts are those of the stored revisions.
#[tokio::test]
async fn post_keeps_its_newest_revisions() {
    let author = author();
    let editor = author_of(service(), guid(), &|claims| claims.permission(MANAGE));
    let post = author.create_post().await;
    for n in 0..53 {
        let user = if n % 2 == 0 { &author } else { &editor };
        user.set_blocks(&post, [text_block(&"x".repeat(n + 1))]).await.expect(200);
    }
    assert_eq!(versions(&author, &post).await, (5..=54).rev().collect::<Vec<i64>>());
    let sql = service().sql().await;
    let counted = "select revision_bytes, content_bytes, (select sum(blocks_bytes) from post_revision where author_id = author.id)::bigint \
                   from author where user_id::text = $1";
    let row = sql.query_one(counted, &[&author.id.to_string()]).await.unwrap();
    let [revisions, content, stored] = [0, 1, 2].map(|column| row.get::<_, i64>(column));
    assert_eq!(revisions, stored);
    assert!(content > 0 && content < revisions);
}

/// RULE-NWS-082: revisions are deleted 90 days after their replacement, and before that if posts
/// and revisions of an author exceed the limit together. They never refuse an edit.
#[tokio::test]
async fn old_and_surplus_revisions_are_deleted() {
    let settings = [
        ("SELECTIONS_URL", "http://127.0.0.1:1"),
        ("CLIENT_SECRET", CLIENTS[0].1),
        ("NEWS_MAX_CONTENT_MIB_PER_AUTHOR", "1"),
    ];
    let news = Running::start::<Service>(&settings);
    let (author, sql) = (author_at(&news), news.sql().await);
    let run = async || {
        sql.execute("update job set due_at = now() where kind = 'post-revisions'", &[]).await.unwrap();
    };
    let old = author.create_post_of([text_block("x")]).await;
    author.set_blocks(&old, [text_block("y")]).await.expect(200);
    let aged = "update post_revision set created_at = now() - interval '91 days' where post_id::text = $1";
    assert_eq!(sql.execute(aged, &[&old]).await.unwrap(), 1);
    // A content that was present for 91 days was replaced only now.
    let untouched = author.create_post_of([text_block("lasting")]).await;
    sql.execute("update post_revision set created_at = now() - interval '91 days'", &[]).await.unwrap();
    sql.execute("update post set updated_at = now() - interval '91 days' where id::text = $1", &[&untouched])
        .await
        .unwrap();
    author.set_blocks(&untouched, [text_block("new")]).await.expect(200);
    run().await;
    eventually("the old revision is gone", async || (versions(&author, &old).await == [3]).then_some(()))
        .await;
    assert_eq!(versions(&author, &untouched).await, [3, 2]);
    let kept = author.news.get(&format!("{}/2", revisions_path(&untouched))).await.expect(200);
    assert_eq!(each(&kept["Blocks"], "PlainText"), ["lasting"]);

    let post = author.create_post().await;
    let editor = author_of(&news, guid(), &|claims| claims.permission(MANAGE));
    for n in 0..9 {
        let blocks = (0..8).map(|_| text_block(&format!("{n}").repeat(10_000)));
        let user = if n % 2 == 0 { &author } else { &editor };
        user.set_blocks(&post, blocks).await.expect(200);
    }
    run().await;
    eventually("the surplus is gone", async || {
        let stored =
            "select content_bytes + revision_bytes, revision_bytes from author where user_id::text = $1";
        let row = sql.query_one(stored, &[&author.id.to_string()]).await.unwrap();
        let (all, revisions): (i64, i64) = (row.get(0), row.get(1));
        (all <= 1024 * 1024 && revisions > 0).then_some(())
    })
    .await;
    let left = versions(&author, &post).await;
    assert!(left.len() < 9 && left[0] == 10, "the oldest are deleted: {left:?}");
    restore(&author, &post, left[1]).await.expect(200);
}
