//! Concurrent changes of one post. A held call to selections puts the other change between the read
//! and the write of an edit.

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use testkit::client::Response;

use crate::{
    Author, author, embed, path, proxy, selections, service, take_path, text, text_block, wait_until_detached,
};

/// Runs an edit that embeds `selection`, and `change` before the edit can save.
async fn edit_during(
    author: &Author,
    post: &str,
    selection: &str,
    change: impl Future<Output = ()>,
) -> Response {
    let gate = proxy().hold_response(take_path(selection));
    let edit = author.set_blocks(post, [text_block("loser"), embed(selection)]);
    let (response, ()) = join(edit, async {
        gate.arrived().await;
        change.await;
        gate.open();
    })
    .await;
    response
}

/// Checks that the snapshot of the failed edit is detached for this reason.
async fn assert_orphan_is_detached(post: &str, selection: &str, reason: &str) {
    let body = proxy().calls(take_path(selection))[0].body.clone();
    let take = format!("/api/v1{}", take_path(selection));
    let orphan = selections().machine("news").post(&take, body).await.expect(200);
    let due = "update snapshot_claim set due_at = now() where post_id = $1::text::uuid";
    service().sql().await.execute(due, &[&post]).await.unwrap();
    assert_eq!(wait_until_detached(text(&orphan["SnapshotId"])).await, reason);
}

/// INV-NWS-008, RULE-NWS-054, RULE-ALL-031: one of two edits succeeds. Nothing of the other is
/// stored, and its snapshot is detached.
#[tokio::test]
async fn one_of_two_edits_succeeds() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);

    let lost = edit_during(&author, &post, &selection, async {
        author.set_blocks(&post, [text_block("winner")]).await.expect(200);
    });

    lost.await.expect_problem(409, "CONCURRENCY_CONFLICT");
    let read = author.read(&post).await;
    assert_eq!(read["Blocks"].as_array().unwrap().len(), 1);
    assert_eq!((&read["Blocks"][0]["Text"], &read["Version"]), (&json!("winner"), &json!(2)));
    assert_orphan_is_detached(&post, &selection, "BlockReplaced").await;
}

/// RULE-NWS-043: the snapshot that both edits took stays, because the stored content embeds it.
#[tokio::test]
async fn conflict_keeps_the_snapshot_of_the_winner() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let lost = edit_during(&author, &post, &selection, async {
        author.set_blocks(&post, [embed(&selection)]).await.expect(200);
    });
    lost.await.expect_problem(409, "CONCURRENCY_CONFLICT");
    let due = "update snapshot_claim set due_at = now() where post_id = $1::text::uuid";
    let sql = service().sql().await;
    sql.execute(due, &[&post]).await.unwrap();
    crate::eventually("the claim is settled", async || {
        let open = "select count(*) from snapshot_claim where post_id = $1::text::uuid";
        (sql.query_one(open, &[&post]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
    })
    .await;
    let snapshot = author.read(&post).await["Blocks"][0]["SnapshotId"].take();
    assert_eq!(crate::read_snapshot(text(&snapshot)).await["Status"], "Active");
    assert!(proxy().calls(format!("{}/detach", text(&snapshot))).is_empty());
}

/// RULE-NWS-043: an edit is a conflict if a publication commits first. Readers see the published
/// content.
#[tokio::test]
async fn edit_loses_to_a_publication() {
    let author = author();
    let selection = author.create_selection().await;
    let post = author.create_post_of([text_block("winner")]).await;
    let lost = edit_during(&author, &post, &selection, async {
        author.change_status(&post, "publish").await.expect(200);
    });
    lost.await.expect_problem(409, "CONCURRENCY_CONFLICT");
    let read = service().guest().get(&path(&post)).await.expect(200);
    assert_eq!(read["Blocks"][0]["Text"], "winner");
    let events = service().published(&post).await;
    assert_eq!((events.len(), &events[0].payload["BlocksCount"]), (1, &json!(1)));
    assert_orphan_is_detached(&post, &selection, "BlockReplaced").await;
}

/// RULE-NWS-043: an edit is a conflict if an archiving commits first.
#[tokio::test]
async fn edit_loses_to_an_archiving() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let lost = edit_during(&author, &post, &selection, async {
        author.change_status(&post, "archive").await.expect(200);
    });
    lost.await.expect_problem(409, "CONCURRENCY_CONFLICT");
    assert_eq!(author.read(&post).await["Blocks"], json!([]));
    assert_orphan_is_detached(&post, &selection, "BlockReplaced").await;
}

/// RULE-NWS-033, RULE-NWS-043: an edit is a conflict if a deletion commits first. Its snapshot is
/// detached with `PostDeleted`.
#[tokio::test]
async fn edit_loses_to_a_deletion() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let lost = edit_during(&author, &post, &selection, async {
        author.news.delete(&path(&post)).await.expect(204);
    });
    lost.await.expect_problem(409, "CONCURRENCY_CONFLICT");
    author.news.get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    assert_orphan_is_detached(&post, &selection, "PostDeleted").await;
}

/// RULE-NWS-033: one of eight concurrent deletions succeeds, and the others return 404.
#[tokio::test]
async fn one_of_eight_deletions_succeeds() {
    let author = author();
    let post = author.create_post().await;
    let path = path(&post);
    let responses = join_all((0..8).map(|_| author.news.delete(&path))).await;
    let (deleted, late): (Vec<_>, Vec<_>) =
        responses.into_iter().partition(|response| response.status == 204);
    assert_eq!(deleted.len(), 1);
    for response in late {
        response.expect_problem(404, "NEWS_POST_NOT_FOUND");
    }
}

/// RULE-NWS-043: an edit is a conflict if a renaming commits first, because both change one
/// aggregate.
#[tokio::test]
async fn edit_loses_to_a_renaming() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let lost = edit_during(&author, &post, &selection, async {
        author.news.put(&path(&post), json!({"Title": "winner"})).await.expect(200);
    });
    lost.await.expect_problem(409, "CONCURRENCY_CONFLICT");
    assert_eq!(author.read(&post).await["Title"], "winner");
}

/// RULE-NWS-015, RULE-NWS-054: the same edit succeeds afterwards, with the snapshot that it took
/// before.
#[tokio::test]
async fn lost_edit_can_be_repeated() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let lost = edit_during(&author, &post, &selection, async {
        author.news.put(&path(&post), json!({"Title": "winner"})).await.expect(200);
    });
    lost.await.expect_problem(409, "CONCURRENCY_CONFLICT");
    let body = proxy().calls(take_path(&selection))[0].body.clone();
    let take = format!("/api/v1{}", take_path(&selection));
    let taken = selections().machine("news").post(&take, body).await.expect(200);

    author.set_blocks(&post, [text_block("again"), embed(&selection)]).await.expect(200);

    let read = author.read(&post).await;
    assert_eq!((&read["Title"], &read["Blocks"][0]["Text"]), (&json!("winner"), &json!("again")));
    assert_eq!(read["Blocks"][1]["SnapshotId"], taken["SnapshotId"]);
}

/// RULE-NWS-023: no transaction is open during a call, so that others can write the row.
#[tokio::test]
async fn waiting_edit_holds_no_lock() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    edit_during(&author, &post, &selection, async {
        let idle = "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in tr%'";
        let sql = service().sql().await;
        // Transactions of other tests end soon. A transaction of the held edit would not.
        crate::eventually("no transaction is open", async || {
            (sql.query_one(idle, &[]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
        })
        .await;
        sql.batch_execute("set lock_timeout = '1s'").await.unwrap();
        sql.query_one("select id from post where id = $1::text::uuid for update", &[&post]).await.unwrap();
    })
    .await
    .expect(200);
}

/// INV-NWS-008, RULE-NWS-043: the stored content is that of one edit, and each 200 is one version.
#[tokio::test]
async fn twenty_concurrent_edits_do_not_mix() {
    let author = author();
    let post = author.create_post().await;
    let edits = (0..20).map(|n| author.set_blocks(&post, vec![text_block(&n.to_string()); n + 1]));
    let responses = futures_util::future::join_all(edits).await;
    let (kept, refused): (Vec<_>, Vec<_>) =
        responses.into_iter().partition(|response| response.status == 200);
    for refused in refused {
        refused.expect_problem(409, "CONCURRENCY_CONFLICT");
    }
    let read = author.read(&post).await;
    let blocks = read["Blocks"].as_array().unwrap();
    let n: usize = text(&blocks[0]["Text"]).parse().unwrap();
    assert!(blocks.len() == n + 1 && blocks.iter().all(|block| block["Text"] == blocks[0]["Text"]));
    assert_eq!(read["Version"], Value::from(1 + kept.len()));
}

/// RULE-NWS-029: one of twenty concurrent publications returns 200 and publishes its event.
#[tokio::test]
async fn one_of_twenty_concurrent_publications_succeeds() {
    let author = author();
    let post = author.create_post_of([text_block("x")]).await;
    let responses =
        futures_util::future::join_all((0..20).map(|_| author.change_status(&post, "publish"))).await;
    assert_eq!(responses.iter().filter(|response| response.status == 200).count(), 1);
    for lost in responses.into_iter().filter(|response| response.status != 200) {
        let code = text(&lost.body["code"]).to_owned();
        assert!(["CONCURRENCY_CONFLICT", "NEWS_POST_INVALID_TRANSITION"].contains(&code.as_str()), "{code}");
        lost.expect_problem(409, &code);
    }
    assert_eq!(service().published(&post).await.len(), 1);
}
