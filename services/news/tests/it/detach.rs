//! Rule 9 of the blocks edit: snapshots that leave a post are detached, unless an edit embeds them
//! again.

use serde_json::json;
use testkit::faults::{Fault, FaultProxy, Gate};
use testkit::service::Running;

use crate::{
    Author, author, author_at, embed, embed_snapshot, eventually, guid, path, proxy, read_snapshot,
    selections, service, snapshot_path, start, take_path, text, text_block, wait_until_detached,
};

/// Returns the path of detaching a snapshot.
pub fn detach_path(snapshot: &str) -> String {
    format!("{}/detach", snapshot_path(snapshot))
}

/// Waits until no detachment and no claim of the post is open.
pub async fn wait_until_settled(news: &Running, post: &str) {
    let sql = news.sql().await;
    let open = "select (select count(*) from snapshot_detach where post_id = $1::text::uuid and detached_at is null) \
                + (select count(*) from snapshot_claim where post_id = $1::text::uuid)";
    eventually("every snapshot is settled", async || {
        (sql.query_one(open, &[&post]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
    })
    .await;
}

/// Makes the detachments and claims of the post due now.
pub async fn make_due(news: &Running, post: &str) {
    let sql = news.sql().await;
    for now in [
        "update job set due_at = now() where kind = 'snapshot-detach-retry' and run is null \
         and key in (select snapshot_id::text from snapshot_detach where post_id = $1::text::uuid)",
        "update snapshot_claim set due_at = now() where post_id = $1::text::uuid",
    ] {
        sql.execute(now, &[&post]).await.unwrap();
    }
}

/// Occupies all eight tasks of the job with held detachments of other snapshots.
///
/// Returns these snapshots and the gates that hold their detachments.
async fn occupy_job(author: &Author, proxy: &FaultProxy) -> (Vec<String>, Vec<Gate>) {
    let mut embeds = Vec::new();
    for _ in 0..8 {
        embeds.push(embed(&author.create_selection().await));
    }
    let post = author.create_post().await;
    let saved = author.set_blocks(&post, embeds).await.expect(200);
    let others = saved["EmbedSnapshotIds"].as_array().unwrap().iter().map(|id| text(id).to_owned());
    let others: Vec<String> = others.collect();
    let gates: Vec<Gate> = others.iter().map(|other| proxy.hold(detach_path(other))).collect();
    author.set_blocks(&post, []).await.expect(200);
    for gate in &gates {
        gate.arrived().await;
    }
    (others, gates)
}

/// RULE-NWS-012: the snapshot of a replaced embed is detached.
#[tokio::test]
async fn replaced_embed_is_detached() {
    let author = author();
    let (post, old) = author.embed(&author.create_selection().await).await;
    let saved = author.set_blocks(&post, [embed(&author.create_selection().await)]).await.expect(200);
    assert_eq!(wait_until_detached(&old).await, "BlockReplaced");
    assert_eq!(read_snapshot(text(&saved["EmbedSnapshotIds"][0])).await["Status"], "Active");
}

/// RULE-NWS-012: the snapshot of a removed embed is detached, and the others stay.
#[tokio::test]
async fn removed_embed_is_detached() {
    let author = author();
    let (one, other) = (author.create_selection().await, author.create_selection().await);
    let post = author.create_post().await;
    let saved = author.set_blocks(&post, [embed(&one), embed(&other), embed(&one)]).await.expect(200);
    let (gone, kept) = (text(&saved["EmbedSnapshotIds"][0]), text(&saved["EmbedSnapshotIds"][1]));
    author.set_blocks(&post, [embed_snapshot(kept)]).await.expect(200);
    assert_eq!(wait_until_detached(gone).await, "BlockReplaced");
    wait_until_settled(service(), &post).await;
    assert_eq!(read_snapshot(kept).await["Status"], "Active");
}

/// RULE-NWS-012: a snapshot stays while one block embeds it.
#[tokio::test]
async fn snapshot_of_another_block_is_kept() {
    let author = author();
    let selection = author.create_selection().await;
    let (post, snapshot) = author.embed(&selection).await;
    author.set_blocks(&post, [embed(&selection), embed_snapshot(&snapshot)]).await.expect(200);
    author.set_blocks(&post, [text_block("x"), embed(&selection)]).await.expect(200);
    wait_until_settled(service(), &post).await;
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");
    assert!(proxy().calls(detach_path(&snapshot)).is_empty());
}

/// RULE-NWS-012, RULE-NWS-033: publish, unpublish and archive detach no snapshot; a deletion does.
#[tokio::test]
async fn status_changes_detach_nothing() {
    let author = author();
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    for to in ["publish", "unpublish", "archive"] {
        author.change_status(&post, to).await.expect(200);
    }
    wait_until_settled(service(), &post).await;
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");
    author.news.delete(&path(&post)).await.expect(204);
    assert_eq!(wait_until_detached(&snapshot).await, "PostDeleted");
}

/// RULE-NWS-012: a refused edit detaches no snapshot.
#[tokio::test]
async fn refused_edit_detaches_nothing() {
    let author = author();
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    let missing = guid().to_string();
    for (block, status, code) in [
        (text_block(""), 400, "VALIDATION_FAILED"),
        (embed_snapshot(&missing), 422, "NEWS_SNAPSHOT_INVALID"),
        (embed(&missing), 400, "NEWS_SELECTION_SOURCE_DELETED"),
    ] {
        author.set_blocks(&post, [block]).await.expect_problem(status, code);
    }
    make_due(service(), &post).await;
    wait_until_settled(service(), &post).await;
    assert!(proxy().calls(detach_path(&snapshot)).is_empty());
    assert_eq!(author.read(&post).await["Blocks"][0]["SnapshotId"], snapshot);
}

/// RULE-NWS-033: `DELETE` returns before the detachments, which the job retries.
#[tokio::test]
async fn deletion_does_not_wait_for_its_detachments() {
    let author = author();
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    // The third attempt is held.
    let gate = proxy().hold(detach_path(&snapshot));
    proxy().inject_next(2, detach_path(&snapshot), Fault::problem(409, "SELECTIONS_CONCURRENCY_CONFLICT"));

    author.news.delete(&path(&post)).await.expect(204);

    gate.arrived().await;
    author.news.get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");
    gate.open();
    assert_eq!(wait_until_detached(&snapshot).await, "PostDeleted");
}

/// RULE-NWS-012: a failed detachment does not fail the request, and is retried until it succeeds.
#[tokio::test]
async fn failed_detachment_is_retried() {
    let author = author();
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    // A refusal is not retried by the client, so each attempt of the job is one call.
    proxy().inject_next(2, detach_path(&snapshot), Fault::problem(409, "SELECTIONS_CONCURRENCY_CONFLICT"));
    author.set_blocks(&post, []).await.expect(200);
    assert_eq!(wait_until_detached(&snapshot).await, "BlockReplaced");
    assert_eq!(proxy().calls(detach_path(&snapshot)).len(), 3);
    wait_until_settled(service(), &post).await;
}

/// RULE-NWS-017: the call of a detachment is retried twice, before the job runs again.
#[tokio::test]
async fn call_of_a_detachment_is_retried_twice() {
    let author = author();
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    proxy().inject(detach_path(&snapshot), Fault::problem(503, "SELECTIONS_SERVICE_UNAVAILABLE"));
    author.set_blocks(&post, []).await.expect(200);
    let sql = service().sql().await;
    let failed =
        "select from job where kind = 'snapshot-detach-retry' and key = $1 and run is null and attempts = 1";
    eventually("the first attempt has failed", async || sql.query_opt(failed, &[&snapshot]).await.unwrap())
        .await;
    assert_eq!(proxy().calls(detach_path(&snapshot)).len(), 3);
}

/// RULE-NWS-012: a lost response repeats the detachment, which keeps its first reason.
#[tokio::test]
async fn detachment_with_a_lost_response_is_repeated() {
    let author = author();
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    proxy().inject_next(1, detach_path(&snapshot), Fault::LoseResponse);
    author.set_blocks(&post, []).await.expect(200);
    assert_eq!(wait_until_detached(&snapshot).await, "BlockReplaced");
    wait_until_settled(service(), &post).await;
    assert_eq!(proxy().calls(detach_path(&snapshot)).len(), 2);
}

/// RULE-NWS-012: a snapshot that selections does not have counts as detached.
#[tokio::test]
async fn missing_snapshot_counts_as_detached() {
    let author = author();
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    proxy().inject_next(1, detach_path(&snapshot), Fault::problem(404, "SELECTIONS_SNAPSHOT_NOT_FOUND"));
    author.set_blocks(&post, []).await.expect(200);
    wait_until_settled(service(), &post).await;
    assert_eq!(proxy().calls(detach_path(&snapshot)).len(), 1);
}

/// RULE-NWS-012: a detachment that keeps failing does not block others.
#[tokio::test]
async fn failing_detachment_does_not_block_others() {
    let author = author();
    let (stuck, good) = (author.create_selection().await, author.create_selection().await);
    let post = author.create_post().await;
    let saved = author.set_blocks(&post, [embed(&stuck), embed(&good)]).await.expect(200);
    let (stuck, good) = (text(&saved["EmbedSnapshotIds"][0]), text(&saved["EmbedSnapshotIds"][1]));
    proxy().inject(detach_path(stuck), Fault::problem(400, "SELECTIONS_NEWER_THAN_US"));
    author.set_blocks(&post, []).await.expect(200);
    assert_eq!(wait_until_detached(good).await, "BlockReplaced");
    assert_eq!(read_snapshot(stuck).await["Status"], "Active");
}

/// RULE-NWS-025: a snapshot that an edit embeds again before its detachment starts is never
/// detached.
#[tokio::test]
async fn snapshot_embedded_again_in_time_stays() {
    let proxy = FaultProxy::start(selections().internal_url());
    let news = start(&proxy.url());
    let author = author_at(&news);
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    // The job works on others while this detachment waits.
    let (others, gates) = occupy_job(&author, &proxy).await;

    author.set_blocks(&post, []).await.expect(200);
    let saved = author.set_blocks(&post, [embed_snapshot(&snapshot)]).await.expect(200);
    gates.iter().for_each(Gate::open);

    assert_eq!(saved["EmbedSnapshotIds"], json!([snapshot]));
    assert_eq!(wait_until_detached(&others[0]).await, "BlockReplaced");
    wait_until_settled(&news, &post).await;
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");
    assert!(proxy.calls(detach_path(&snapshot)).is_empty());
}

/// RULE-NWS-025: before the detachment has started, an edit that names the source gets the existing
/// snapshot.
#[tokio::test]
async fn source_embedded_again_in_time_keeps_its_snapshot() {
    let proxy = FaultProxy::start(selections().internal_url());
    let news = start(&proxy.url());
    let author = author_at(&news);
    let selection = author.create_selection().await;
    let (post, snapshot) = author.embed(&selection).await;
    let (others, gates) = occupy_job(&author, &proxy).await;

    author.set_blocks(&post, []).await.expect(200);
    let saved = author.set_blocks(&post, [embed(&selection)]).await.expect(200);
    gates.iter().for_each(Gate::open);

    assert_eq!(saved["EmbedSnapshotIds"], json!([snapshot]));
    wait_until_detached(&others[0]).await;
    wait_until_settled(&news, &post).await;
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");
}

/// RULE-NWS-025: a started detachment cannot be cancelled, although the snapshot is still Active.
#[tokio::test]
async fn snapshot_of_a_started_detachment_is_invalid() {
    let author = author();
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    let gate = proxy().hold(detach_path(&snapshot));
    author.set_blocks(&post, [text_block("kept")]).await.expect(200);
    gate.arrived().await;
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");

    author.set_blocks(&post, [embed_snapshot(&snapshot)]).await.expect_problem(422, "NEWS_SNAPSHOT_INVALID");

    gate.open();
    assert_eq!(wait_until_detached(&snapshot).await, "BlockReplaced");
    assert_eq!(author.read(&post).await["Blocks"][0]["Text"], "kept");
}

/// RULE-NWS-025: after the detachment has started, an edit that names the source gets a new
/// snapshot.
#[tokio::test]
async fn source_of_a_started_detachment_gets_a_new_snapshot() {
    let author = author();
    let selection = author.create_selection().await;
    let (post, old) = author.embed(&selection).await;
    let gate = proxy().hold(detach_path(&old));
    author.set_blocks(&post, []).await.expect(200);
    gate.arrived().await;

    let saved = author.set_blocks(&post, [embed(&selection)]).await.expect(200);

    gate.open();
    let fresh = text(&saved["EmbedSnapshotIds"][0]);
    assert_ne!(fresh, old);
    assert_eq!(wait_until_detached(&old).await, "BlockReplaced");
    make_due(service(), &post).await;
    wait_until_settled(service(), &post).await;
    assert_eq!(read_snapshot(fresh).await["Status"], "Active");
    assert_eq!(author.read(&post).await["Blocks"][0]["SnapshotId"], fresh);
}

/// RULE-NWS-025: an edit takes the old snapshot of its source, which is detached before the save.
/// The saved snapshot is another one, which is Active.
#[tokio::test]
async fn snapshot_detached_during_an_edit_is_not_embedded() {
    let author = author();
    let (first, second) = (author.create_selection().await, author.create_selection().await);
    let (post, old) = author.embed(&first).await;
    let detachment = proxy().hold(detach_path(&old));
    author.set_blocks(&post, []).await.expect(200);
    detachment.arrived().await;

    let waiting = proxy().hold_response(take_path(&second));
    let edit = author.set_blocks(&post, [embed(&first), embed(&second)]);
    let (saved, ()) = futures_util::future::join(edit, async {
        waiting.arrived().await;
        eventually("selections has returned the old snapshot", async || {
            (!proxy().calls(take_path(&first)).is_empty()).then_some(())
        })
        .await;
        detachment.open();
        wait_until_detached(&old).await;
        let sql = service().sql().await;
        eventually("the detachment is over", async || {
            let open = "select count(*) from snapshot_detach where snapshot_id = $1::text::uuid and detached_at is null";
            (sql.query_one(open, &[&old]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
        })
        .await;
        waiting.open();
    })
    .await;

    let saved = saved.expect(200);
    for snapshot in saved["EmbedSnapshotIds"].as_array().unwrap() {
        assert_eq!(read_snapshot(text(snapshot)).await["Status"], "Active");
    }
    assert_ne!(saved["EmbedSnapshotIds"][0], old);
}

/// RULE-NWS-025: an edit fails if a snapshot that was Active at its check is detached before the
/// save.
#[tokio::test]
async fn kept_snapshot_detached_during_an_edit_is_invalid() {
    let author = author();
    let second = author.create_selection().await;
    let (post, old) = author.embed(&author.create_selection().await).await;
    let detachment = proxy().hold(detach_path(&old));
    author.set_blocks(&post, []).await.expect(200);
    detachment.arrived().await;

    let waiting = proxy().hold_response(take_path(&second));
    let edit = author.set_blocks(&post, [embed_snapshot(&old), embed(&second)]);
    let (refused, ()) = futures_util::future::join(edit, async {
        waiting.arrived().await;
        detachment.open();
        wait_until_detached(&old).await;
        let sql = service().sql().await;
        eventually("the detachment is over", async || {
            let open = "select count(*) from snapshot_detach where snapshot_id = $1::text::uuid and detached_at is null";
            (sql.query_one(open, &[&old]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
        })
        .await;
        waiting.open();
    })
    .await;

    refused.expect_problem(422, "NEWS_SNAPSHOT_INVALID");
    assert_eq!(author.read(&post).await["Blocks"], json!([]));
}
