//! What holds when changes of one post race. An edit is held at its call to selections, so that the
//! other change comes between what it reads and what it writes.

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use testkit::client::Answer;

use crate::{Author, author, between, detached, embed, path, selections, service, taking, text, text_block};

/// Runs an edit that embeds `selection`, and `meanwhile` before it can save.
async fn interrupted(
    author: &Author,
    post: &str,
    selection: &str,
    meanwhile: impl Future<Output = ()>,
) -> Answer {
    let gate = between().hold_answer(taking(selection));
    let edit = author.set_blocks(post, [text_block("loser"), embed(selection)]);
    let (answer, ()) = join(edit, async {
        gate.arrived().await;
        meanwhile.await;
        gate.open();
    })
    .await;
    answer
}

/// The snapshot that an interrupted edit took is in no post: it is let go.
async fn is_orphaned(post: &str, selection: &str) {
    let body = between().calls(taking(selection))[0].body.clone();
    let take = format!("/api/v1{}", taking(selection));
    let orphan = selections().machine("news").post(&take, body).await.expect(200);
    let due = "update snapshot_claim set due_at = now() where post_id = $1::text::uuid";
    service().sql().await.execute(due, &[&post]).await.unwrap();
    assert_eq!(detached(text(&orphan["SnapshotId"])).await, "BlockReplaced");
}

/// Rule 8: of two edits one is kept; nothing of the other, its snapshot neither.
#[tokio::test]
async fn one_of_two_edits_is_kept() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);

    let lost = interrupted(&author, &post, &selection, async {
        author.set_blocks(&post, [text_block("winner")]).await.expect(200);
    });

    lost.await.expect_problem(409, "CONCURRENCY_CONFLICT");
    let read = author.read(&post).await;
    assert_eq!(read["Blocks"].as_array().unwrap().len(), 1);
    assert_eq!((&read["Blocks"][0]["Text"], &read["Version"]), (&json!("winner"), &json!(2)));
    is_orphaned(&post, &selection).await;
}

/// Rule 8: the snapshot that both edits took stays, since the one that was kept shows it.
#[tokio::test]
async fn a_conflict_costs_the_winner_nothing() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let lost = interrupted(&author, &post, &selection, async {
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
    assert!(between().calls(format!("{}/detach", text(&snapshot))).is_empty());
}

/// An edit that a publication overtakes is lost: the public never sees it half.
#[tokio::test]
async fn an_edit_loses_to_a_publication() {
    let author = author();
    let selection = author.create_selection().await;
    let post = author.create_post_of([text_block("winner")]).await;
    let lost = interrupted(&author, &post, &selection, async {
        author.move_post(&post, "publish").await.expect(200);
    });
    lost.await.expect_problem(409, "CONCURRENCY_CONFLICT");
    let read = service().guest().get(&path(&post)).await.expect(200);
    assert_eq!(read["Blocks"][0]["Text"], "winner");
    let events = service().published(&post).await;
    assert_eq!((events.len(), &events[0].payload["BlocksCount"]), (1, &json!(1)));
    is_orphaned(&post, &selection).await;
}

/// An edit that an archiving overtakes is lost.
#[tokio::test]
async fn an_edit_loses_to_an_archiving() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let lost = interrupted(&author, &post, &selection, async {
        author.move_post(&post, "archive").await.expect(200);
    });
    lost.await.expect_problem(409, "CONCURRENCY_CONFLICT");
    assert_eq!(author.read(&post).await["Blocks"], json!([]));
    is_orphaned(&post, &selection).await;
}

/// Rule 8: an edit that a deletion overtakes is a conflict. What it took is detached although there is no post.
#[tokio::test]
async fn an_edit_that_a_deletion_overtakes_is_a_conflict() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let lost = interrupted(&author, &post, &selection, async {
        author.news.delete(&path(&post)).await.expect(204);
    });
    lost.await.expect_problem(409, "CONCURRENCY_CONFLICT");
    author.news.get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    is_orphaned(&post, &selection).await;
}

/// News: a post is deleted once; whoever comes later, or at the same time, finds nothing.
#[tokio::test]
async fn of_deletions_that_race_one_finds_the_post() {
    let author = author();
    let post = author.create_post().await;
    let path = path(&post);
    let answers = join_all((0..8).map(|_| author.news.delete(&path))).await;
    let (deleted, late): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 204);
    assert_eq!(deleted.len(), 1);
    for answer in late {
        answer.expect_problem(404, "NEWS_POST_NOT_FOUND");
    }
}

/// An edit that a renaming overtakes is lost: both change one aggregate.
#[tokio::test]
async fn an_edit_loses_to_a_renaming() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let lost = interrupted(&author, &post, &selection, async {
        author.news.put(&path(&post), json!({"Title": "winner"})).await.expect(200);
    });
    lost.await.expect_problem(409, "CONCURRENCY_CONFLICT");
    assert_eq!(author.read(&post).await["Title"], "winner");
}

/// Errors: whoever lost may come again: the same edit is kept then, of the post as it is now and with the snapshot that
/// it took before.
#[tokio::test]
async fn whoever_lost_may_come_again() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let lost = interrupted(&author, &post, &selection, async {
        author.news.put(&path(&post), json!({"Title": "winner"})).await.expect(200);
    });
    lost.await.expect_problem(409, "CONCURRENCY_CONFLICT");
    let body = between().calls(taking(&selection))[0].body.clone();
    let take = format!("/api/v1{}", taking(&selection));
    let taken = selections().machine("news").post(&take, body).await.expect(200);

    author.set_blocks(&post, [text_block("again"), embed(&selection)]).await.expect(200);

    let read = author.read(&post).await;
    assert_eq!((&read["Title"], &read["Blocks"][0]["Text"]), (&json!("winner"), &json!("again")));
    assert_eq!(read["Blocks"][1]["SnapshotId"], taken["SnapshotId"]);
}

/// News: no transaction is open while selections is called: others write the same row meanwhile.
#[tokio::test]
async fn a_waiting_edit_locks_nothing() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    interrupted(&author, &post, &selection, async {
        let idle = "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in tr%'";
        let sql = service().sql().await;
        // Other tests' transactions come and go; one that is held stays.
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

/// Of twenty edits at once each that was answered 200 has been the content for a while, in full.
#[tokio::test]
async fn twenty_edits_at_once_do_not_mix() {
    let author = author();
    let post = author.create_post().await;
    let edits = (0..20).map(|n| author.set_blocks(&post, vec![text_block(&n.to_string()); n + 1]));
    let answers = futures_util::future::join_all(edits).await;
    let (kept, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
    for refused in refused {
        refused.expect_problem(409, "CONCURRENCY_CONFLICT");
    }
    let read = author.read(&post).await;
    let blocks = read["Blocks"].as_array().unwrap();
    let n: usize = text(&blocks[0]["Text"]).parse().unwrap();
    assert!(blocks.len() == n + 1 && blocks.iter().all(|block| block["Text"] == blocks[0]["Text"]));
    assert_eq!(read["Version"], Value::from(1 + kept.len()));
}

/// A post is published once, however many publish it at once: one event, one 200.
#[tokio::test]
async fn twenty_publications_are_one() {
    let author = author();
    let post = author.create_post_of([text_block("x")]).await;
    let answers = futures_util::future::join_all((0..20).map(|_| author.move_post(&post, "publish"))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
    for lost in answers.into_iter().filter(|answer| answer.status != 200) {
        let code = text(&lost.body["code"]).to_owned();
        assert!(["CONCURRENCY_CONFLICT", "NEWS_POST_INVALID_TRANSITION"].contains(&code.as_str()), "{code}");
        lost.expect_problem(409, &code);
    }
    assert_eq!(service().published(&post).await.len(), 1);
}
