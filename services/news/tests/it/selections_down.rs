//! Rule 7 when selections is down, slow, or answers what it should not: what news answers, how often it
//! tried, and that nothing is half saved. Each test has a news of its own: it keeps a breaker.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use testkit::client::Answer;
use testkit::faults::{Fault, Faults};
use testkit::service::Running;

use crate::{
    Author, author_at, detached, embed, embed_snapshot, eventually, guid, read_snapshot, selections,
    snapshot_path, start, taking, text, text_block,
};

/// A news, its author, and what stands before its selections.
pub struct Scene {
    pub between: Faults,
    pub news: Running,
    pub author: Author,
    /// Has a text, "kept".
    pub post: String,
    pub selection: String,
}

impl Scene {
    pub async fn new() -> Self {
        let between = Faults::before(selections().internal_url());
        let news = start(&between.url());
        let author = author_at(&news);
        let post = author.create_post_of([text_block("kept")]).await;
        let selection = author.create_selection().await;
        Self { between, news, author, post, selection }
    }

    /// An edit that embeds the selection.
    pub async fn edit(&self) -> Answer {
        self.author.set_blocks(&self.post, [text_block("new"), embed(&self.selection)]).await
    }

    pub fn tries(&self) -> usize {
        self.between.calls(taking(&self.selection)).len()
    }

    async fn assert_nothing_is_saved(&self) {
        let read = self.author.read(&self.post).await;
        assert_eq!(
            (&read["Blocks"][0]["Text"], read["Blocks"].as_array().unwrap().len()),
            (&json!("kept"), 1)
        );
        assert_eq!(read["Version"], 2);
    }

    /// What the edit may have taken is detached, once news looks for it.
    async fn assert_orphans_go(&self) {
        let body = json!({"PostId": self.post, "ActorUserId": self.author.id});
        let take = format!("/api/v1{}", taking(&self.selection));
        let orphan = selections().machine("news").post(&take, body).await.body["SnapshotId"].take();
        let sql = self.news.sql().await;
        eventually("the claim is settled", async || {
            sql.execute("update snapshot_claim set due_at = now()", &[]).await.unwrap();
            let open = "select count(*) from snapshot_claim";
            (sql.query_one(open, &[]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
        })
        .await;
        assert_eq!(detached(text(&orphan)).await, "BlockReplaced");
    }
}

/// `503 NEWS_SELECTIONS_UNAVAILABLE` with `Retry-After`, and nothing of the cause.
#[track_caller]
pub fn assert_unavailable(answer: Answer) {
    let wait: Option<u64> = answer.header("retry-after").parse().ok();
    assert!(wait.is_some_and(|seconds| (1..=60).contains(&seconds)), "{:?}: {}", answer.headers, answer.text);
    let problem = answer.expect_problem(503, "NEWS_SELECTIONS_UNAVAILABLE").to_string();
    assert!(!problem.contains("127.0.0.1") && !problem.contains("SELECTIONS_NEWER"), "{problem}");
}

/// Rule 7, and Repeating of the conventions: what may be tried again is tried three times; then it is 503, nothing
/// is saved, and an edit after that succeeds.
async fn fails_after_three_tries(fault: Fault) {
    fails_after(3, fault).await;
}

async fn fails_after(tries: usize, fault: Fault) {
    let scene = Scene::new().await;
    scene.between.on(taking(&scene.selection), fault.clone());

    assert_unavailable(scene.edit().await);

    assert_eq!(scene.tries(), tries, "{fault:?}");
    scene.assert_nothing_is_saved().await;
    scene.between.heal();
    scene.assert_orphans_go().await;
    scene.edit().await.expect(200);
}

/// It does not say that it may be tried again.
#[tokio::test]
async fn selections_answering_500() {
    fails_after(1, Fault::problem(500, "SELECTIONS_INTERNAL_ERROR")).await;
}

#[tokio::test]
async fn selections_answering_503_without_a_body() {
    fails_after_three_tries(Fault::Answer(503, String::new())).await;
}

#[tokio::test]
async fn selections_limiting_the_rate() {
    fails_after_three_tries(Fault::problem(429, "SELECTIONS_RATE_LIMITED")).await;
}

#[tokio::test]
async fn selections_closing_the_connection() {
    fails_after_three_tries(Fault::Drop).await;
}

#[tokio::test]
async fn selections_breaking_off() {
    fails_after_three_tries(Fault::BreakOff).await;
}

#[tokio::test]
async fn selections_not_speaking_http() {
    fails_after_three_tries(Fault::Garbage).await;
}

#[tokio::test]
async fn selections_answering_more_than_it_could() {
    fails_after_three_tries(Fault::Huge(64 * 1024 * 1024)).await;
}

/// Taking is idempotent: what selections did although its answer was lost is not done twice.
#[tokio::test]
async fn an_answer_that_is_lost_leaves_one_snapshot() {
    fails_after_three_tries(Fault::LoseAnswer).await;
}

/// Limits: a try has 5 seconds. None that takes longer is an answer, and after 2 retries the edit fails.
async fn times_out(fault: Fault) {
    let scene = Scene::new().await;
    scene.between.on(taking(&scene.selection), fault);

    assert_unavailable(scene.edit().await);

    assert_eq!(scene.tries(), 3);
    scene.assert_nothing_is_saved().await;
    scene.between.heal();
    scene.assert_orphans_go().await;
}

/// Slow, or silent after the headers: both are cut off.
#[tokio::test]
async fn selections_that_answers_no_try_in_time_is_unavailable() {
    let slow = times_out(Fault::Slow(Duration::from_secs(20)));
    futures_util::future::join(slow, times_out(Fault::HangAfterHeaders)).await;
}

/// Limits: an answer after 4 seconds is in time.
#[tokio::test]
async fn selections_that_answers_after_four_seconds_is_waited_for() {
    let scene = Scene::new().await;
    scene.between.on(taking(&scene.selection), Fault::Slow(Duration::from_secs(4)));
    scene.edit().await.expect(200);
    assert_eq!(scene.tries(), 1);
}

/// Limits: an answer after 6 seconds is too late. The try is given up, and the next one succeeds.
#[tokio::test]
async fn selections_that_answers_after_six_seconds_is_called_again() {
    let scene = Scene::new().await;
    scene.between.next(1, taking(&scene.selection), Fault::Slow(Duration::from_secs(6)));
    scene.edit().await.expect(200);
    assert_eq!(scene.tries(), 2);
}

/// A failure that passes is not seen by anybody.
#[tokio::test]
async fn a_retry_that_succeeds_is_a_success() {
    for faults in [
        vec![Fault::Drop, Fault::problem(503, "X")],
        vec![Fault::LoseAnswer],
        vec![Fault::Answer(429, String::new())],
    ] {
        let scene = Scene::new().await;
        for fault in faults.iter().rev() {
            scene.between.next(1, taking(&scene.selection), fault.clone());
        }
        let saved = scene.edit().await.expect(200);
        assert_eq!(scene.tries(), faults.len() + 1);
        assert_eq!(saved["EmbedSnapshotIds"].as_array().unwrap().len(), 1);
        assert_eq!(scene.author.read(&scene.post).await["Blocks"][1]["ItemsCount"], 3);
    }
}

/// What selections refuses is not asked again, whatever it means here.
#[tokio::test]
async fn a_refusal_is_asked_once() {
    let scene = Scene::new().await;
    for (fault, status, code) in [
        (Fault::problem(404, "SELECTIONS_NOT_FOUND"), 400, "NEWS_SELECTION_SOURCE_DELETED"),
        (Fault::problem(400, "SELECTIONS_SOURCE_DELETED"), 400, "NEWS_SELECTION_SOURCE_DELETED"),
        (Fault::problem(400, "SELECTIONS_SOURCE_EMPTY"), 400, "NEWS_SELECTION_SOURCE_EMPTY"),
        (Fault::problem(400, "SELECTIONS_NEWER_THAN_US"), 503, "NEWS_SELECTIONS_UNAVAILABLE"),
        (Fault::problem(400, "SELECTIONS_VALIDATION_FAILED"), 503, "NEWS_SELECTIONS_UNAVAILABLE"),
        (Fault::problem(403, "SELECTIONS_FORBIDDEN"), 503, "NEWS_SELECTIONS_UNAVAILABLE"),
        (Fault::problem(409, "SELECTIONS_CONCURRENCY_CONFLICT"), 503, "NEWS_SELECTIONS_UNAVAILABLE"),
        (Fault::problem(413, "SELECTIONS_PAYLOAD_TOO_LARGE"), 503, "NEWS_SELECTIONS_UNAVAILABLE"),
    ] {
        scene.between.heal();
        scene.between.on(taking(&scene.selection), fault.clone());
        let before = scene.tries();
        let refused = scene.edit().await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (status, &json!(code)),
            "{fault:?}: {}",
            refused.text
        );
        assert_eq!(scene.tries() - before, 1, "{fault:?}");
        scene.assert_nothing_is_saved().await;
    }
}

/// An answer that is HTTP but not selections': 503, whatever its status says.
#[tokio::test]
async fn an_answer_that_makes_no_sense_is_no_answer() {
    let foreign = r#"{"SnapshotId":"x","PublicCode":1}"#;
    for (status, body) in
        [(200, "<html>"), (200, "{}"), (200, foreign), (201, ""), (404, "<html>"), (400, "{}"), (302, "")]
    {
        let scene = Scene::new().await;
        scene.between.on(taking(&scene.selection), Fault::Answer(status, body.to_owned()));
        assert_unavailable(scene.edit().await);
        assert_eq!(scene.tries(), 1, "{status} {body}");
        scene.assert_nothing_is_saved().await;
    }
}

/// Rule 6 asks selections too: a snapshot that cannot be looked up is 503, not 422.
#[tokio::test]
async fn a_snapshot_that_cannot_be_looked_up_is_unavailable() {
    let scene = Scene::new().await;
    let snapshot = guid().to_string();
    scene.between.on(snapshot_path(&snapshot), Fault::problem(503, "SELECTIONS_SERVICE_UNAVAILABLE"));
    let refused =
        scene.author.set_blocks(&scene.post, [embed_snapshot(&snapshot), embed(&scene.selection)]).await;
    assert_unavailable(refused);
    assert_eq!((scene.between.calls(snapshot_path(&snapshot)).len(), scene.tries()), (3, 0));
    scene.assert_nothing_is_saved().await;
}

/// 503 on a later block: what was taken for the earlier ones is let go.
#[tokio::test]
async fn a_later_block_that_fails_leaves_nothing_of_the_earlier() {
    let scene = Scene::new().await;
    let later = scene.author.create_selection().await;
    scene.between.on(taking(&later), Fault::problem(500, "SELECTIONS_INTERNAL_ERROR"));
    assert_unavailable(scene.author.set_blocks(&scene.post, [embed(&scene.selection), embed(&later)]).await);
    assert_eq!(scene.tries(), 1);
    scene.assert_nothing_is_saved().await;
    scene.between.heal();
    scene.assert_orphans_go().await;
}

/// An edit that needs nothing of selections does not notice; and detachments wait for its return.
#[tokio::test]
async fn an_edit_without_calls_works_while_selections_is_down() {
    let scene = Scene::new().await;
    let snapshot = text(&scene.edit().await.expect(200)["EmbedSnapshotIds"][0]).to_owned();
    scene.between.refuse();
    scene.author.set_blocks(&scene.post, [embed_snapshot(&snapshot), text_block("x")]).await.expect(200);
    scene.author.set_blocks(&scene.post, [text_block("y")]).await.expect(200);
    scene.author.move_post(&scene.post, "publish").await.expect(200);
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");
    scene.between.listen();
    assert_eq!(detached(&snapshot).await, "BlockReplaced");
}

/// Plainly down; up again: it recovers by itself.
#[tokio::test]
async fn the_breaker_opens_and_closes_by_itself() {
    let scene = Scene::new().await;
    scene.between.refuse();
    for _ in 0..12 {
        assert_unavailable(scene.edit().await);
    }
    scene.assert_nothing_is_saved().await;

    scene.between.listen();

    eventually("news calls selections again", async || (scene.edit().await.status == 200).then_some(()))
        .await;
    for _ in 0..5 {
        scene.edit().await.expect(200);
    }
}

/// While the breaker is open selections is left alone.
#[tokio::test]
async fn an_open_breaker_calls_nobody() {
    let scene = Scene::new().await;
    scene.between.on(taking(&scene.selection), Fault::problem(500, "SELECTIONS_INTERNAL_ERROR"));
    for _ in 0..30 {
        assert_unavailable(scene.edit().await);
    }
    // Ten calls open it; then few are let through to see.
    assert!(scene.tries() < 20, "{} tries for 30 edits", scene.tries());
}

/// Readers who come together for a snapshot that nobody has read yet have it fetched once, and what failed is
/// not remembered.
#[tokio::test]
async fn a_snapshot_is_fetched_once_for_all_who_wait() {
    let scene = Scene::new().await;
    let snapshot = text(&scene.edit().await.expect(200)["EmbedSnapshotIds"][0]).to_owned();
    let items = async || scene.author.read(&scene.post).await["Blocks"][1]["Items"].take();
    scene.between.on(snapshot_path(&snapshot), Fault::problem(500, "SELECTIONS_INTERNAL_ERROR"));
    assert_eq!(items().await, json!(null));
    let failed = scene.between.calls(snapshot_path(&snapshot)).len();
    scene.between.on(snapshot_path(&snapshot), Fault::Slow(Duration::from_secs(1)));

    let read = join_all((0..20).map(async |_| items().await)).await;

    assert!(read.iter().all(|items| items.as_array().is_some_and(|items| items.len() == 3)), "{read:?}");
    assert_eq!(scene.between.calls(snapshot_path(&snapshot)).len() - failed, 1);
}

/// Refusals are answers: they open no breaker.
#[tokio::test]
async fn refusals_open_no_breaker() {
    let scene = Scene::new().await;
    for _ in 0..30 {
        let refused = scene.author.set_blocks(&scene.post, [embed(&guid().to_string())]).await;
        refused.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
    }
    scene.edit().await.expect(200);
}

/// A selections that was never there.
#[tokio::test]
async fn nobody_listens() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let news = start(&format!("http://{address}"));
    let author = author_at(&news);
    let post = author.create_post_of([text_block("kept")]).await;
    assert_unavailable(author.set_blocks(&post, [embed(&guid().to_string())]).await);
    assert_eq!(author.read(&post).await["Blocks"][0]["Text"], "kept");
}
