//! What an edit took before it failed is let go, through restarts, and nothing else is.

use std::time::Duration;

use futures_util::future::join;
use testkit::faults::{Fault, Faults};
use testkit::issuer::CLIENTS;
use testkit::service::Running;

use crate::detach::{detaching, hurry, settled};
use crate::{
    author, author_at, between, detached, embed, guid, path, read_snapshot, selections, service, start,
    taking, text,
};

/// Orphans: an edit claims a snapshot before it takes it. The claim is due after 40 seconds, so that a minute is enough to
/// detach it, and is gone with the save.
#[tokio::test]
async fn a_snapshot_is_claimed_for_forty_seconds_before_it_is_taken() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let sql = service().sql().await;
    let claimed = async || {
        let claims = "select count(*) from snapshot_claim where post_id = $1::text::uuid \
                      and source_selection_id = $2::text::uuid and due_at <= clock_timestamp() + interval '40 seconds'";
        sql.query_one(claims, &[&post, &selection]).await.unwrap().get::<_, i64>(0)
    };
    let gate = between().hold(taking(&selection));
    let (saved, claims) = join(author.set_blocks(&post, [embed(&selection)]), async {
        gate.arrived().await;
        let claims = claimed().await;
        gate.open();
        claims
    })
    .await;
    saved.expect(200);
    assert_eq!((claims, claimed().await), (1, 0));
}

/// Orphans: what an edit took before it failed is detached by the job alone, once the claim on it is due.
#[tokio::test]
async fn what_a_failed_edit_took_is_detached_without_help() {
    let author = author();
    let (good, deleted) = (author.create_selection().await, author.create_selection().await);
    author.delete_selection(&deleted).await;
    let post = author.create_post().await;
    let refused = author.set_blocks(&post, [embed(&good), embed(&deleted)]).await;
    refused.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
    let orphan = taken_by_news(&good).await;
    assert_eq!(detached(&orphan).await, "BlockReplaced");
}

/// Returns the snapshot that news has taken of a selection: to take it again is idempotent.
async fn taken_by_news(selection: &str) -> String {
    let calls = between().calls(taking(selection));
    assert_eq!(calls.len(), 1);
    let take = format!("/api/v1{}", taking(selection));
    let taken = selections().machine("news").post(&take, calls[0].body.clone()).await.expect(200);
    text(&taken["SnapshotId"]).to_owned()
}

/// Orphans: the same when its claim is made due. The selection can be embedded again, with another snapshot.
#[tokio::test]
async fn what_a_failed_edit_took_is_detached_when_its_claim_is_due() {
    let author = author();
    let (good, deleted) = (author.create_selection().await, author.create_selection().await);
    author.delete_selection(&deleted).await;
    let post = author.create_post().await;
    let refused = author.set_blocks(&post, [embed(&good), embed(&deleted)]).await;
    refused.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
    let orphan = taken_by_news(&good).await;

    hurry(service(), &post).await;

    assert_eq!(detached(&orphan).await, "BlockReplaced");
    settled(service(), &post).await;
    let later = author.set_blocks(&post, [embed(&good)]).await.expect(200);
    assert_ne!(later["EmbedSnapshotIds"][0], orphan.as_str());
}

/// Orphans: an edit that succeeds after one that failed keeps the snapshot that both took.
#[tokio::test]
async fn what_a_later_edit_took_over_is_kept() {
    let author = author();
    let (good, deleted) = (author.create_selection().await, author.create_selection().await);
    author.delete_selection(&deleted).await;
    let post = author.create_post().await;
    author
        .set_blocks(&post, [embed(&good), embed(&deleted)])
        .await
        .expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
    let saved = author.set_blocks(&post, [embed(&good)]).await.expect(200);

    hurry(service(), &post).await;

    settled(service(), &post).await;
    assert_eq!(read_snapshot(text(&saved["EmbedSnapshotIds"][0])).await["Status"], "Active");
}

/// Work that waits survives the process: another one takes it up.
#[tokio::test]
async fn what_waits_survives_a_restart() {
    let between = Faults::before(selections().internal_url());
    let first = start(&between.url());
    let author = author_at(&first);
    let (good, deleted) = (author.create_selection().await, author.create_selection().await);
    author.delete_selection(&deleted).await;
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    between.on(detaching(&snapshot), Fault::problem(409, "SELECTIONS_CONCURRENCY_CONFLICT"));
    author.set_blocks(&post, []).await.expect(200);
    author
        .set_blocks(&post, [embed(&good), embed(&deleted)])
        .await
        .expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
    let take = format!("/api/v1{}", taking(&good));
    let body = between.calls(taking(&good))[0].body.clone();
    let orphan = selections().machine("news").post(&take, body).await.expect(200);
    first.process.stop();
    let stopped =
        tokio::time::timeout(Duration::from_secs(30), first.process.stopped().cancelled_owned()).await;
    stopped.expect("it stops");
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");
    between.heal();

    let second = Running::start::<news::Service>(&[
        ("DATABASE_URL", &first.database_url),
        ("SELECTIONS_URL", &between.url()),
        ("CLIENT_SECRET", CLIENTS[0].1),
    ]);
    hurry(&second, &post).await;

    assert_eq!(detached(&snapshot).await, "BlockReplaced");
    assert_eq!(detached(text(&orphan["SnapshotId"])).await, "BlockReplaced");
    settled(&second, &post).await;
    second.guest().get(&path(&guid().to_string())).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
}
