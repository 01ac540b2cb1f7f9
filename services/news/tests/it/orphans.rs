//! Orphans: the snapshots of failed edits, and only those, are detached, even after a restart.

use std::time::Duration;

use futures_util::future::join;
use reqwest::Method;
use serde_json::json;
use testkit::database;
use testkit::deployed::Deployed;
use testkit::faults::{Fault, FaultProxy};
use testkit::issuer::{CLIENTS, Claims};
use testkit::service::Running;

use crate::detach::{detach_path, make_due, wait_until_settled};
use crate::{
    Author, MANAGE_OWN, author, author_at, blocks_path, content, embed, guid, path, proxy, read_snapshot,
    selections, service, start, take_path, text, wait_until_detached,
};

/// RULE-NWS-024: a claim precedes the call, is due after 40 seconds and ends with the save.
#[tokio::test]
async fn snapshot_is_claimed_for_forty_seconds_before_it_is_taken() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let sql = service().sql().await;
    let claimed = async || {
        let claims = "select count(*) from snapshot_claim where post_id = $1::text::uuid \
                      and source_selection_id = $2::text::uuid \
                      and due_at between clock_timestamp() + interval '20 seconds' and clock_timestamp() + interval '40 seconds'";
        sql.query_one(claims, &[&post, &selection]).await.unwrap().get::<_, i64>(0)
    };
    let gate = proxy().hold(take_path(&selection));
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

/// RULE-NWS-024: the job detaches the snapshot of a failed edit once its claim is due.
#[tokio::test]
async fn orphan_of_a_failed_edit_is_detached_after_forty_seconds() {
    let author = author();
    let (good, deleted) = (author.create_selection().await, author.create_selection().await);
    author.delete_selection(&deleted).await;
    let post = author.create_post().await;
    let refused = author.set_blocks(&post, [embed(&good), embed(&deleted)]).await;
    refused.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
    let orphan = snapshot_taken_by_news(&good).await;
    assert_eq!(wait_until_detached(&orphan).await, "BlockReplaced");
}

/// Returns the snapshot that news has taken of a selection, by taking it again.
async fn snapshot_taken_by_news(selection: &str) -> String {
    let calls = proxy().calls(take_path(selection));
    assert_eq!(calls.len(), 1);
    let take = format!("/api/v1{}", take_path(selection));
    let taken = selections().machine("news").post(&take, calls[0].body.clone()).await.expect(200);
    text(&taken["SnapshotId"]).to_owned()
}

/// RULE-NWS-024: the snapshot of a due claim is detached, and a later edit gets another snapshot.
#[tokio::test]
async fn edit_after_a_detached_orphan_gets_a_new_snapshot() {
    let author = author();
    let (good, deleted) = (author.create_selection().await, author.create_selection().await);
    author.delete_selection(&deleted).await;
    let post = author.create_post().await;
    let refused = author.set_blocks(&post, [embed(&good), embed(&deleted)]).await;
    refused.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
    let orphan = snapshot_taken_by_news(&good).await;

    make_due(service(), &post).await;

    assert_eq!(wait_until_detached(&orphan).await, "BlockReplaced");
    wait_until_settled(service(), &post).await;
    let later = author.set_blocks(&post, [embed(&good)]).await.expect(200);
    assert_ne!(later["EmbedSnapshotIds"][0], orphan.as_str());
}

/// RULE-NWS-024: a successful edit keeps the snapshot that a failed edit had taken.
#[tokio::test]
async fn snapshot_of_a_later_edit_is_kept() {
    let author = author();
    let (good, deleted) = (author.create_selection().await, author.create_selection().await);
    author.delete_selection(&deleted).await;
    let post = author.create_post().await;
    author
        .set_blocks(&post, [embed(&good), embed(&deleted)])
        .await
        .expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
    let saved = author.set_blocks(&post, [embed(&good)]).await.expect(200);

    make_due(service(), &post).await;

    wait_until_settled(service(), &post).await;
    assert_eq!(read_snapshot(text(&saved["EmbedSnapshotIds"][0])).await["Status"], "Active");
}

/// RULE-NWS-024: a process is killed between the call and the save. The edit is lost, and another
/// process detaches its snapshot.
#[tokio::test]
async fn orphan_of_a_killed_process_is_detached_by_another() {
    let proxy = FaultProxy::start(selections().internal_url());
    let (database_url, selections_url) = (database::create().await.unwrap(), proxy.url());
    let settings = [
        ("DATABASE_URL", database_url.as_str()),
        ("SELECTIONS_URL", &selections_url),
        ("CLIENT_SECRET", CLIENTS[0].1),
    ];
    let mut first = Deployed::start(env!("CARGO_BIN_EXE_news"), &[], &settings).await;
    let id = guid();
    let claims = Claims::user(id).permission(MANAGE_OWN);
    let author = Author { id, news: first.caller(&claims), selections: selections().caller(&claims) };
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let taken = proxy.hold_response(take_path(&selection));
    let edit = author.news.request(Method::PUT, &blocks_path(&post)).json(&content([embed(&selection)]));
    let kill = async {
        taken.arrived().await;
        first.process.kill().await.unwrap();
    };
    let (lost, ()) = join(edit.send(), kill).await;
    assert!(lost.is_err(), "the process ended before its response");
    taken.open();
    let body = proxy.calls(take_path(&selection))[0].body.clone();
    let take = format!("/api/v1{}", take_path(&selection));
    let orphan = selections().machine("news").post(&take, body).await.expect(200);

    let second = Running::start::<news::Service>(&settings);
    assert_eq!(second.caller(&claims).get(&path(&post)).await.expect(200)["Blocks"], json!([]));
    make_due(&second, &post).await;
    assert_eq!(wait_until_detached(text(&orphan["SnapshotId"])).await, "BlockReplaced");
    wait_until_settled(&second, &post).await;
}

/// RULE-NWS-024: another process continues claims and detachments.
#[tokio::test]
async fn claims_and_detachments_survive_a_restart() {
    let proxy = FaultProxy::start(selections().internal_url());
    let first = start(&proxy.url());
    let author = author_at(&first);
    let (good, deleted) = (author.create_selection().await, author.create_selection().await);
    author.delete_selection(&deleted).await;
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    proxy.inject(detach_path(&snapshot), Fault::problem(409, "SELECTIONS_CONCURRENCY_CONFLICT"));
    author.set_blocks(&post, []).await.expect(200);
    author
        .set_blocks(&post, [embed(&good), embed(&deleted)])
        .await
        .expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
    let take = format!("/api/v1{}", take_path(&good));
    let body = proxy.calls(take_path(&good))[0].body.clone();
    let orphan = selections().machine("news").post(&take, body).await.expect(200);
    first.process.stop();
    let stopped =
        tokio::time::timeout(Duration::from_secs(30), first.process.stopped().cancelled_owned()).await;
    stopped.expect("the process stops");
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");
    proxy.remove_faults();

    let second = Running::start::<news::Service>(&[
        ("DATABASE_URL", &first.database_url),
        ("SELECTIONS_URL", &proxy.url()),
        ("CLIENT_SECRET", CLIENTS[0].1),
    ]);
    make_due(&second, &post).await;

    assert_eq!(wait_until_detached(&snapshot).await, "BlockReplaced");
    assert_eq!(wait_until_detached(text(&orphan["SnapshotId"])).await, "BlockReplaced");
    wait_until_settled(&second, &post).await;
    second.guest().get(&path(&guid().to_string())).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
}
