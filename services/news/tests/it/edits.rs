//! Versions of the blocks edit, repeats without a change, blocks as they were read, and refreshed
//! embeds.

use futures_util::future::join;
use serde_json::{Value, json};
use testkit::faults::Fault;

use crate::detach::{detach_path, make_due, wait_until_settled};
use crate::{
    Author, MANAGE, author, author_of, blocks_path, content, each, embed, embed_snapshot, formatted, gallery,
    guid, path, proxy, read_snapshot, selections, service, take_path, text, text_block, wait_until_detached,
    with,
};

const INVALID: &str = "VALIDATION_FAILED";

/// Sends an edit with a version.
async fn edit(
    author: &Author,
    post: &str,
    version: impl Into<Value>,
    blocks: impl IntoIterator<Item = Value>,
) -> testkit::client::Response {
    let mut body = content(blocks);
    body["Version"] = version.into();
    author.news.put(&blocks_path(post), body).await
}

async fn rename_selection(author: &Author, selection: &str, title: &str) {
    let body = json!({"Title": title, "Description": null});
    author.selections.put(&format!("/api/v1/selections/{selection}"), body).await.expect(200);
}

fn refreshed(block: Value) -> Value {
    with(block, "Refresh", true)
}

/// RULE-NWS-057, RULE-NWS-054: an edit of an outdated version is a conflict, needs no call and
/// stores nothing. The response has the version for the next edit.
#[tokio::test]
async fn edit_of_an_outdated_version_is_a_conflict() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let saved = edit(&author, &post, 1, [text_block("theirs")]).await.expect(200);
    assert_eq!(saved["Version"], 2);
    for stale in [1, 3, 0, -1, i64::MAX] {
        let refused = edit(&author, &post, stale, [text_block("mine"), embed(&selection)]).await;
        refused.expect_problem(409, "CONCURRENCY_CONFLICT");
    }
    assert!(proxy().calls(take_path(&selection)).is_empty());
    assert_eq!(author.read(&post).await["Blocks"][0]["Text"], "theirs");
    for wrong in [json!("2"), json!(1.5), json!(true)] {
        edit(&author, &post, wrong, []).await.expect_refusal(INVALID, "/Version", "invalid_type");
    }
    assert_eq!(edit(&author, &post, 2, [text_block("mine")]).await.expect(200)["Version"], 3);
    assert_eq!(edit(&author, &post, Value::Null, []).await.expect(200)["Version"], 4);
    let renamed = author.news.put(&path(&post), json!({"Title": "x", "Version": 4})).await;
    assert_eq!(renamed.expect(200)["Version"], 5);
}

/// RULE-NWS-058: the same content changes nothing, with and without ids of blocks, and also with an
/// outdated `Version`.
#[tokio::test]
async fn same_content_changes_nothing() {
    let author = author();
    let selection = author.create_selection().await;
    let blocks = [
        text_block("a\"\u{1}é"),
        formatted("Html", "<p>b</p>"),
        formatted("Markdown", "*c*"),
        gallery(2),
        embed(&selection),
    ];
    let post = author.publish_post().await;
    let saved = author.set_blocks(&post, blocks.clone()).await.expect(200);
    let before = author.read(&post).await;
    let calls = proxy().calls(take_path(&selection)).len();

    assert_eq!(author.set_blocks(&post, blocks.clone()).await.expect(200), saved);
    assert_eq!(edit(&author, &post, 1, blocks.clone()).await.expect(200), saved);
    let as_read = before["Blocks"].as_array().unwrap().clone();
    assert_eq!(author.set_blocks(&post, as_read.clone()).await.expect(200), saved);
    let snapshot = before["Blocks"][4]["SnapshotId"].clone();
    let [a, b, c, d, _] = blocks.clone();
    let by_snapshot = [a, b, c, d, embed_snapshot(text(&snapshot))];
    assert_eq!(author.set_blocks(&post, by_snapshot).await.expect(200), saved);
    assert_eq!(author.read(&post).await, before);
    assert_eq!(proxy().calls(take_path(&selection)).len(), calls);

    // Another id, another character or another order is a change.
    let mut version = saved["Version"].as_i64().unwrap();
    let mut other_id = as_read.clone();
    other_id[0]["BlockId"] = json!(guid());
    let mut other_text = as_read.clone();
    other_text[0]["Text"] = json!("b\"\u{1}é");
    let mut other_order = as_read;
    other_order.swap(1, 2);
    other_order[1]["SortOrder"] = json!(1);
    other_order[2]["SortOrder"] = json!(2);
    for changed in [other_id, other_text, other_order] {
        version += 1;
        assert_eq!(author.set_blocks(&post, changed).await.expect(200)["Version"], version);
    }
    assert_eq!(author.set_blocks(&post, []).await.expect(200)["Version"], version + 1);
    assert_eq!(author.set_blocks(&post, []).await.expect(200)["Version"], version + 1);
}

/// RULE-NWS-059, RULE-NWS-005: a block with two targets is refused unless the post has this block.
/// The block is also refused if the post does not exist.
#[tokio::test]
async fn block_with_two_targets_is_refused_unless_the_post_has_it() {
    let author = author();
    let stranger = crate::author();
    let (one, other) = (author.create_selection().await, author.create_selection().await);
    let post = author.create_post_of([text_block("x"), embed(&one), embed(&other)]).await;
    let read = author.read(&post).await["Blocks"].take();
    let (first, second) = (&read[1], &read[2]);
    for (member, value) in [
        ("SnapshotId", second["SnapshotId"].clone()),
        ("SourceSelectionId", second["SourceSelectionId"].clone()),
        ("BlockId", second["BlockId"].clone()),
        ("BlockId", json!(guid())),
        ("BlockId", Value::Null),
    ] {
        let mixed = with(first.clone(), member, value);
        let refused = author.set_blocks(&post, [text_block("y"), mixed]).await;
        refused.expect_refusal(INVALID, "/Blocks/1", "exactly_one");
    }
    let missing = author.set_blocks(&guid().to_string(), [first.clone()]).await;
    missing.expect_refusal(INVALID, "/Blocks/0", "exactly_one");
    stranger.set_blocks(&post, [first.clone()]).await.expect_problem(403, "FORBIDDEN");
    assert_eq!(author.set_blocks(&post, [second.clone()]).await.expect(200)["Version"], 3);
    // The post had the block in the caller's outdated version, so the response is 409, not 400.
    edit(&author, &post, 2, [first.clone()]).await.expect_problem(409, "CONCURRENCY_CONFLICT");
    author.set_blocks(&post, [first.clone()]).await.expect_refusal(INVALID, "/Blocks/0", "exactly_one");
}

/// RULE-NWS-002, RULE-NWS-006: the empty Guid is an id like any other, and members of other kinds
/// are ignored.
#[tokio::test]
async fn empty_block_id_and_members_of_other_kinds_are_accepted() {
    let author = author();
    let post = author.create_post().await;
    let empty = "00000000-0000-0000-0000-000000000000";
    let block = with(text_block("x"), "BlockId", empty);
    author.set_blocks(&post, [block.clone()]).await.expect(200);
    assert_eq!(author.read(&post).await["Blocks"][0]["BlockId"], empty);
    let twice = author.set_blocks(&post, [block.clone(), block]).await;
    twice.expect_refusal(INVALID, "/Blocks/1/BlockId", "duplicate");
    let mixed = with(with(text_block("y"), "Images", 7), "SnapshotId", "no id");
    author.set_blocks(&post, [mixed]).await.expect(200);
    assert_eq!(author.read(&post).await["Blocks"][0]["Images"], Value::Null);
}

/// RULE-NWS-060: one request refreshes an embed. Every block of the selection shows the new
/// snapshot, and the old one is detached. An editor refreshes only own selections.
#[tokio::test]
async fn embed_is_refreshed_in_one_request() {
    let author = author();
    let (selection, other) = (author.create_selection().await, author.create_selection().await);
    let post = author.create_post_of([embed(&selection), embed(&other), embed(&selection)]).await;
    let before = author.read(&post).await["Blocks"].take();
    rename_selection(&author, &selection, "Fresh").await;
    rename_selection(&author, &other, "Stale").await;
    let old = text(&before[0]["SnapshotId"]).to_owned();

    let kept = [refreshed(before[0].clone()), before[1].clone(), before[2].clone()];
    let saved = author.set_blocks(&post, kept).await.expect(200);

    let after = author.read(&post).await["Blocks"].take();
    assert_eq!(each(&after, "Title"), ["Fresh", "Three flats", "Fresh"]);
    assert_eq!(each(&after, "BlockId"), each(&before, "BlockId"));
    assert_eq!(after[1], before[1]);
    assert_eq!(saved["EmbedSnapshotIds"], json!([after[0]["SnapshotId"], after[1]["SnapshotId"]]));
    assert_eq!(read_snapshot(text(&after[0]["SnapshotId"])).await["Status"], "Active");
    assert_eq!(wait_until_detached(&old).await, "BlockReplaced");
    wait_until_settled(service(), &post).await;

    // An editor keeps the snapshot, and sees nothing that the author has changed in private.
    rename_selection(&author, &selection, "Private").await;
    let editor = author_of(service(), guid(), &|claims| claims.permission(MANAGE));
    let as_seen = editor.read(&post).await["Blocks"].take();
    assert!(as_seen[0]["SourceSelectionId"].is_null());
    let refused = editor.set_blocks(&post, [refreshed(as_seen[0].clone())]).await;
    let problem = refused.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
    assert_eq!(problem["errors"][0]["field"], "/Blocks/0/SourceSelectionId");
    make_due(service(), &post).await;
    wait_until_settled(service(), &post).await;
    assert_eq!(author.read(&post).await["Blocks"][0]["Title"], "Fresh");
    let of_editor = editor.create_selection().await;
    editor.set_blocks(&post, [as_seen[0].clone(), embed(&of_editor)]).await.expect(200);
    rename_selection(&editor, &of_editor, "Fresh, too").await;
    let own = editor.read(&post).await["Blocks"].take();
    let keep = with(own[0].clone(), "Refresh", false);
    editor.set_blocks(&post, [keep, refreshed(own[1].clone())]).await.expect(200);
    let shown = author.read(&post).await["Blocks"].take();
    assert_eq!(each(&shown, "Title"), ["Fresh", "Fresh, too"]);

    // A selection that the post does not embed is taken as usual.
    let new = author.create_selection().await;
    author.set_blocks(&post, [refreshed(embed(&new))]).await.expect(200);
}

/// RULE-NWS-060, RULE-NWS-063: the refused refresh of a deleted source changes nothing.
#[tokio::test]
async fn refresh_of_a_deleted_source_changes_nothing() {
    let author = author();
    let selection = author.create_selection().await;
    let (post, snapshot) = author.embed(&selection).await;
    author.delete_selection(&selection).await;
    let refused = author.set_blocks(&post, [refreshed(embed(&selection))]).await;
    let problem = refused.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
    assert_eq!(problem["errors"][0]["field"], "/Blocks/0/SourceSelectionId");
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");
    author.set_blocks(&post, [embed_snapshot(&snapshot), text_block("x")]).await.expect(200);
}

/// RULE-NWS-060: a refresh that loses a race is completed by the job, so that the post embeds the
/// Active snapshot.
#[tokio::test]
async fn refresh_that_loses_a_race_is_completed_by_the_job() {
    let author = author();
    let selection = author.create_selection().await;
    let (post, old) = author.embed(&selection).await;
    rename_selection(&author, &selection, "Fresh").await;
    let gate = proxy().hold_response(take_path(&selection));
    let lost = author.set_blocks(&post, [text_block("mine"), refreshed(embed_snapshot(&old))]);
    let (lost, ()) = join(lost, async {
        gate.arrived().await;
        author.set_blocks(&post, [text_block("theirs"), embed_snapshot(&old)]).await.expect(200);
        gate.open();
    })
    .await;
    lost.expect_problem(409, "CONCURRENCY_CONFLICT");

    make_due(service(), &post).await;
    wait_until_settled(service(), &post).await;

    let read = author.read(&post).await;
    assert_eq!(
        (&read["Blocks"][0]["Text"], &read["Blocks"][1]["Title"]),
        (&json!("theirs"), &json!("Fresh"))
    );
    assert_eq!(read_snapshot(text(&read["Blocks"][1]["SnapshotId"])).await["Status"], "Active");
    assert_eq!(read_snapshot(&old).await["Status"], "Detached");
}

/// RULE-NWS-064: an edit that repeats a call, because a detachment has started, does not overwrite
/// another edit that was saved during the repeat.
#[tokio::test]
async fn edit_that_repeats_its_call_loses_to_a_concurrent_edit() {
    let author = author();
    let selection = author.create_selection().await;
    let (post, old) = author.embed(&selection).await;
    let detachment = proxy().hold(detach_path(&old));
    author.set_blocks(&post, []).await.expect(200);
    detachment.arrived().await;

    // The first call of the edit returns the old snapshot, and the second one waits.
    let waiting = proxy().hold(take_path(&selection));
    proxy().inject_next(1, take_path(&selection), Fault::Delay(std::time::Duration::ZERO));
    let edit = author.set_blocks(&post, [text_block("mine"), embed(&selection)]);
    let (lost, ()) = join(edit, async {
        waiting.arrived().await;
        author.set_blocks(&post, [text_block("theirs")]).await.expect(200);
        waiting.open();
    })
    .await;

    lost.expect_problem(409, "CONCURRENCY_CONFLICT");
    detachment.open();
    let read = author.read(&post).await["Blocks"].take();
    assert_eq!(each(&read, "Text"), ["theirs"]);
    make_due(service(), &post).await;
    wait_until_settled(service(), &post).await;
    let machine = selections().machine("news");
    let again = proxy().calls(take_path(&selection)).remove(0).body;
    let taken = machine.post(&format!("/api/v1{}", take_path(&selection)), again).await;
    assert_eq!(taken.status, 201, "a new snapshot, since the orphan is detached: {}", taken.text);
}

/// RULE-NWS-064: a detachment that fails does not fail an edit that needs a new snapshot.
#[tokio::test]
async fn edit_needs_no_detachment_for_a_new_snapshot() {
    let author = author();
    let selection = author.create_selection().await;
    let (post, old) = author.embed(&selection).await;
    proxy().inject(detach_path(&old), Fault::problem(400, "SELECTIONS_NEWER_THAN_US"));
    author.set_blocks(&post, []).await.expect(200);
    crate::eventually("the detachment has started", async || {
        (!proxy().calls(detach_path(&old)).is_empty()).then_some(())
    })
    .await;

    let saved = author.set_blocks(&post, [embed(&selection)]).await.expect(200);

    assert_ne!(saved["EmbedSnapshotIds"], json!([old]));
    assert_eq!(read_snapshot(text(&saved["EmbedSnapshotIds"][0])).await["Status"], "Active");
    // The call that took the new snapshot has detached the old one.
    assert_eq!(read_snapshot(&old).await["DetachReason"], "BlockReplaced");
}

/// RULE-NWS-011: an editor who does not own the source may keep the snapshot that the post shows.
#[tokio::test]
async fn editor_who_owns_no_source_keeps_its_snapshot() {
    let author = author();
    let editor = author_of(service(), guid(), &|claims| claims.permission(MANAGE));
    let selection = editor.create_selection().await;
    let post = author.create_post().await;
    let saved = editor.set_blocks(&post, [embed(&selection)]).await.expect(200);
    let again = author.set_blocks(&post, [text_block("x"), embed(&selection)]).await.expect(200);
    assert_eq!(again["EmbedSnapshotIds"], saved["EmbedSnapshotIds"]);
}

/// RULE-NWS-063: the refusal of an embed points to its block in the request.
#[tokio::test]
async fn refusal_of_an_embed_points_to_its_block() {
    let author = author();
    let (good, deleted) = (author.create_selection().await, author.create_selection().await);
    author.delete_selection(&deleted).await;
    let empty = author.selections.post("/api/v1/selections", json!({"Title": "Empty"})).await.expect(201);
    let post = author.create_post().await;
    let missing = guid().to_string();
    for (bad, status, code, member, reason) in [
        (embed(&deleted), 400, "NEWS_SELECTION_SOURCE_DELETED", "SourceSelectionId", "source_deleted"),
        (embed(text(&empty["Id"])), 400, "NEWS_SELECTION_SOURCE_EMPTY", "SourceSelectionId", "source_empty"),
        (embed_snapshot(&missing), 422, "NEWS_SNAPSHOT_INVALID", "SnapshotId", "snapshot_invalid"),
    ] {
        // The pointer counts the blocks as they were sent.
        let blocks = [with(embed(&good), "SortOrder", 9), text_block("x"), with(bad, "SortOrder", 5)];
        let problem = author.set_blocks(&post, blocks).await.expect_problem(status, code);
        let errors = problem["errors"].as_array().unwrap();
        assert_eq!(errors.len(), 1, "{problem}");
        assert_eq!(
            (&errors[0]["field"], &errors[0]["code"]),
            (&json!(format!("/Blocks/2/{member}")), &json!(reason))
        );
    }
}

/// INV-NWS-008: times of a post never go back, although the clock of a replica is behind.
#[tokio::test]
async fn times_of_changes_never_go_back() {
    let author = author();
    let post = author.create_post().await;
    let ahead = "update post set updated_at = now() + interval '1 hour' where id = $1::text::uuid";
    service().sql().await.execute(ahead, &[&post]).await.unwrap();
    let before = author.read(&post).await["UpdatedAt"].take();
    author.set_blocks(&post, [text_block("x")]).await.expect(200);
    assert_eq!(author.read(&post).await["UpdatedAt"], before);
    author.change_status(&post, "publish").await.expect(200);
    assert_eq!(author.read(&post).await["UpdatedAt"], before);
}
