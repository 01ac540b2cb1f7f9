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

/// Orphans: what an edit is going to take is written down before it is taken, to be looked after within a minute; and
/// crossed out with the save.
#[tokio::test]
async fn what_is_going_to_be_taken_is_written_down_first() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let sql = service().sql().await;
    let written = async || {
        let claims = "select count(*) from snapshot_claim where post_id = $1::text::uuid \
                      and source_selection_id = $2::text::uuid and due_at < now() + interval '1 minute'";
        sql.query_one(claims, &[&post, &selection]).await.unwrap().get::<_, i64>(0)
    };
    let gate = between().hold(taking(&selection));
    let (saved, claims) = join(author.set_blocks(&post, [embed(&selection)]), async {
        gate.arrived().await;
        let claims = written().await;
        gate.open();
        claims
    })
    .await;
    saved.expect(200);
    assert_eq!((claims, written().await), (1, 0));
}

/// Orphans: what an edit took before it failed is detached within a minute.
#[tokio::test]
async fn what_a_failed_edit_took_is_let_go() {
    let author = author();
    let (good, deleted) = (author.create_selection().await, author.create_selection().await);
    author.delete_selection(&deleted).await;
    let post = author.create_post().await;
    let refused = author.set_blocks(&post, [embed(&good), embed(&deleted)]).await;
    refused.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
    let taken = between().calls(taking(&good));
    assert_eq!(taken.len(), 1);
    // Taking is idempotent: the same call tells which snapshot it was.
    let take = format!("/api/v1{}", taking(&good));
    let orphan = selections().machine("news").post(&take, taken[0].body.clone()).await.expect(200);

    hurry(service(), &post).await;

    assert_eq!(detached(text(&orphan["SnapshotId"])).await, "BlockReplaced");
    settled(service(), &post).await;
    let later = author.set_blocks(&post, [embed(&good)]).await.expect(200);
    assert_ne!(later["EmbedSnapshotIds"][0], orphan["SnapshotId"]);
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
