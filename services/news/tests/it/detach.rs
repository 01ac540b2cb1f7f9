//! Rule 9: what an edit takes out of a post is detached after it, and what an edit puts back is not.

use serde_json::json;
use testkit::faults::{Fault, Faults, Gate};
use testkit::service::Running;

use crate::{
    Author, author, author_at, between, detached, embed, embed_snapshot, eventually, guid, path,
    read_snapshot, selections, service, snapshot_path, start, taking, text, text_block,
};

/// The path at which news detaches a snapshot.
pub fn detaching(snapshot: &str) -> String {
    format!("{}/detach", snapshot_path(snapshot))
}

/// Waits until no detachment and no claim of the post is open.
pub async fn settled(news: &Running, post: &str) {
    let sql = news.sql().await;
    let open = "select (select count(*) from snapshot_detach where post_id = $1::text::uuid and detached_at is null) \
                + (select count(*) from snapshot_claim where post_id = $1::text::uuid)";
    eventually("every snapshot is settled", async || {
        (sql.query_one(open, &[&post]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
    })
    .await;
}

/// What waits for its time is due now.
pub async fn hurry(news: &Running, post: &str) {
    let sql = news.sql().await;
    for now in [
        "update job set due_at = now() where kind = 'snapshot-detach-retry' and run is null \
         and key in (select snapshot_id::text from snapshot_detach where post_id = $1::text::uuid)",
        "update snapshot_claim set due_at = now() where post_id = $1::text::uuid",
    ] {
        sql.execute(now, &[&post]).await.unwrap();
    }
}

/// Has the job be busy with as many other snapshots as it works on at once. Answers those, and what holds them.
async fn busy(author: &Author, between: &Faults) -> (Vec<String>, Vec<Gate>) {
    let mut embeds = Vec::new();
    for _ in 0..8 {
        embeds.push(embed(&author.create_selection().await));
    }
    let post = author.create_post().await;
    let saved = author.set_blocks(&post, embeds).await.expect(200);
    let others = saved["EmbedSnapshotIds"].as_array().unwrap().iter().map(|id| text(id).to_owned());
    let others: Vec<String> = others.collect();
    let gates: Vec<Gate> = others.iter().map(|other| between.hold(detaching(other))).collect();
    author.set_blocks(&post, []).await.expect(200);
    for gate in &gates {
        gate.arrived().await;
    }
    (others, gates)
}

/// Rule 9: a replaced embed.
#[tokio::test]
async fn a_replaced_embed_is_detached() {
    let author = author();
    let (post, old) = author.embed(&author.create_selection().await).await;
    let saved = author.set_blocks(&post, [embed(&author.create_selection().await)]).await.expect(200);
    assert_eq!(detached(&old).await, "BlockReplaced");
    assert_eq!(read_snapshot(text(&saved["EmbedSnapshotIds"][0])).await["Status"], "Active");
}

/// Rule 9: a removed embed; those that stay, stay.
#[tokio::test]
async fn a_removed_embed_is_detached() {
    let author = author();
    let (one, other) = (author.create_selection().await, author.create_selection().await);
    let post = author.create_post().await;
    let saved = author.set_blocks(&post, [embed(&one), embed(&other), embed(&one)]).await.expect(200);
    let (gone, kept) = (text(&saved["EmbedSnapshotIds"][0]), text(&saved["EmbedSnapshotIds"][1]));
    author.set_blocks(&post, [embed_snapshot(kept)]).await.expect(200);
    assert_eq!(detached(gone).await, "BlockReplaced");
    settled(service(), &post).await;
    assert_eq!(read_snapshot(kept).await["Status"], "Active");
}

/// Rule 9: one of two blocks of a snapshot goes; the snapshot stays.
#[tokio::test]
async fn a_snapshot_that_another_block_shows_is_kept() {
    let author = author();
    let selection = author.create_selection().await;
    let (post, snapshot) = author.embed(&selection).await;
    author.set_blocks(&post, [embed(&selection), embed_snapshot(&snapshot)]).await.expect(200);
    author.set_blocks(&post, [text_block("x"), embed(&selection)]).await.expect(200);
    settled(service(), &post).await;
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");
    assert!(between().calls(detaching(&snapshot)).is_empty());
}

/// Rule 9: snapshots of a published post too; publishing, unpublishing and archiving detach nothing.
#[tokio::test]
async fn moves_detach_nothing() {
    let author = author();
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    for to in ["publish", "unpublish", "archive"] {
        author.move_post(&post, to).await.expect(200);
    }
    settled(service(), &post).await;
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");
    author.news.delete(&path(&post)).await.expect(204);
    assert_eq!(detached(&snapshot).await, "PostDeleted");
}

/// Rule 9: what is detached is detached after the save; an edit that is refused has none.
#[tokio::test]
async fn a_refused_edit_detaches_nothing() {
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
    hurry(service(), &post).await;
    settled(service(), &post).await;
    assert!(between().calls(detaching(&snapshot)).is_empty());
    assert_eq!(author.read(&post).await["Blocks"][0]["SnapshotId"], snapshot);
}

/// `DELETE` does not wait for its detachments, which are tried again as those of an edit are.
#[tokio::test]
async fn a_deletion_does_not_wait_for_its_detachments() {
    let author = author();
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    // The third attempt is held.
    let gate = between().hold(detaching(&snapshot));
    between().next(2, detaching(&snapshot), Fault::problem(409, "SELECTIONS_CONCURRENCY_CONFLICT"));

    author.news.delete(&path(&post)).await.expect(204);

    gate.arrived().await;
    author.news.get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");
    gate.open();
    assert_eq!(detached(&snapshot).await, "PostDeleted");
}

/// Rule 9: a detachment that fails does not fail the request, and is tried again until it succeeds.
#[tokio::test]
async fn a_detachment_that_fails_is_tried_again() {
    let author = author();
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    // Refused: told at once, so each attempt is one call.
    between().next(2, detaching(&snapshot), Fault::problem(409, "SELECTIONS_CONCURRENCY_CONFLICT"));
    author.set_blocks(&post, []).await.expect(200);
    assert_eq!(detached(&snapshot).await, "BlockReplaced");
    assert_eq!(between().calls(detaching(&snapshot)).len(), 3);
    settled(service(), &post).await;
}

/// At least once: an answer that is lost is a detachment that is repeated, and keeps its first reason.
#[tokio::test]
async fn a_detachment_whose_answer_is_lost_is_repeated() {
    let author = author();
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    between().next(1, detaching(&snapshot), Fault::LoseAnswer);
    author.set_blocks(&post, []).await.expect(200);
    assert_eq!(detached(&snapshot).await, "BlockReplaced");
    settled(service(), &post).await;
    assert_eq!(between().calls(detaching(&snapshot)).len(), 2);
}

/// A snapshot that selections does not know any more is as good as detached.
#[tokio::test]
async fn a_snapshot_that_is_gone_is_let_go() {
    let author = author();
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    between().next(1, detaching(&snapshot), Fault::problem(404, "SELECTIONS_SNAPSHOT_NOT_FOUND"));
    author.set_blocks(&post, []).await.expect(200);
    settled(service(), &post).await;
    assert_eq!(between().calls(detaching(&snapshot)).len(), 1);
}

/// One snapshot that cannot be detached does not keep others from it.
#[tokio::test]
async fn a_detachment_that_keeps_failing_keeps_no_other() {
    let author = author();
    let (stuck, good) = (author.create_selection().await, author.create_selection().await);
    let post = author.create_post().await;
    let saved = author.set_blocks(&post, [embed(&stuck), embed(&good)]).await.expect(200);
    let (stuck, good) = (text(&saved["EmbedSnapshotIds"][0]), text(&saved["EmbedSnapshotIds"][1]));
    between().on(detaching(stuck), Fault::problem(400, "SELECTIONS_NEWER_THAN_US"));
    author.set_blocks(&post, []).await.expect(200);
    assert_eq!(detached(good).await, "BlockReplaced");
    assert_eq!(read_snapshot(stuck).await["Status"], "Active");
}

/// News: a snapshot that an edit has put back is never detached. It was let go, but the
/// detachment has not started.
#[tokio::test]
async fn a_snapshot_that_is_put_back_in_time_stays() {
    let between = Faults::before(selections().internal_url());
    let news = start(&between.url());
    let author = author_at(&news);
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    // The job is busy with others while this one waits.
    let (others, gates) = busy(&author, &between).await;

    author.set_blocks(&post, []).await.expect(200);
    let saved = author.set_blocks(&post, [embed_snapshot(&snapshot)]).await.expect(200);
    gates.iter().for_each(Gate::open);

    assert_eq!(saved["EmbedSnapshotIds"], json!([snapshot]));
    assert_eq!(detached(&others[0]).await, "BlockReplaced");
    settled(&news, &post).await;
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");
    assert!(between.calls(detaching(&snapshot)).is_empty());
}

/// The same by source: the existing snapshot is taken back.
#[tokio::test]
async fn a_source_that_is_embedded_again_in_time_keeps_its_snapshot() {
    let between = Faults::before(selections().internal_url());
    let news = start(&between.url());
    let author = author_at(&news);
    let selection = author.create_selection().await;
    let (post, snapshot) = author.embed(&selection).await;
    let (others, gates) = busy(&author, &between).await;

    author.set_blocks(&post, []).await.expect(200);
    let saved = author.set_blocks(&post, [embed(&selection)]).await.expect(200);
    gates.iter().for_each(Gate::open);

    assert_eq!(saved["EmbedSnapshotIds"], json!([snapshot]));
    detached(&others[0]).await;
    settled(&news, &post).await;
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");
}

/// A detachment that has started cannot be undone: the snapshot is invalid, although it still is Active.
#[tokio::test]
async fn a_snapshot_whose_detachment_has_started_is_invalid() {
    let author = author();
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    let gate = between().hold(detaching(&snapshot));
    author.set_blocks(&post, [text_block("kept")]).await.expect(200);
    gate.arrived().await;
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");

    author.set_blocks(&post, [embed_snapshot(&snapshot)]).await.expect_problem(422, "NEWS_SNAPSHOT_INVALID");

    gate.open();
    assert_eq!(detached(&snapshot).await, "BlockReplaced");
    assert_eq!(author.read(&post).await["Blocks"][0]["Text"], "kept");
}

/// And its source gets a fresh snapshot, not the one that is going.
#[tokio::test]
async fn a_source_whose_snapshot_is_being_detached_is_taken_anew() {
    let author = author();
    let selection = author.create_selection().await;
    let (post, old) = author.embed(&selection).await;
    let gate = between().hold(detaching(&old));
    author.set_blocks(&post, []).await.expect(200);
    gate.arrived().await;

    let saved = author.set_blocks(&post, [embed(&selection)]).await.expect(200);

    gate.open();
    let fresh = text(&saved["EmbedSnapshotIds"][0]);
    assert_ne!(fresh, old);
    assert_eq!(detached(&old).await, "BlockReplaced");
    hurry(service(), &post).await;
    settled(service(), &post).await;
    assert_eq!(read_snapshot(fresh).await["Status"], "Active");
    assert_eq!(author.read(&post).await["Blocks"][0]["SnapshotId"], fresh);
}

/// Interleaved: an edit is told of the old snapshot of its source; before it saves, that one is
/// detached from beginning to end. What is saved is Active all the same.
#[tokio::test]
async fn a_snapshot_that_is_detached_under_an_edit_is_not_embedded() {
    let author = author();
    let (first, second) = (author.create_selection().await, author.create_selection().await);
    let (post, old) = author.embed(&first).await;
    let detachment = between().hold(detaching(&old));
    author.set_blocks(&post, []).await.expect(200);
    detachment.arrived().await;

    let waiting = between().hold_answer(taking(&second));
    let edit = author.set_blocks(&post, [embed(&first), embed(&second)]);
    let (saved, ()) = futures_util::future::join(edit, async {
        waiting.arrived().await;
        eventually("selections has told of the old snapshot", async || {
            (!between().calls(taking(&first)).is_empty()).then_some(())
        })
        .await;
        detachment.open();
        detached(&old).await;
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

/// The same for a kept snapshot: the edit has seen it Active, and it no longer is when the edit saves.
#[tokio::test]
async fn a_snapshot_that_is_detached_under_an_edit_is_invalid() {
    let author = author();
    let second = author.create_selection().await;
    let (post, old) = author.embed(&author.create_selection().await).await;
    let detachment = between().hold(detaching(&old));
    author.set_blocks(&post, []).await.expect(200);
    detachment.arrived().await;

    let waiting = between().hold_answer(taking(&second));
    let edit = author.set_blocks(&post, [embed_snapshot(&old), embed(&second)]);
    let (refused, ()) = futures_util::future::join(edit, async {
        waiting.arrived().await;
        detachment.open();
        detached(&old).await;
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
