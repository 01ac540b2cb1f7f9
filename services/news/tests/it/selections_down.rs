//! Rule 7 of the blocks edit while selections is down, slow or returns unexpected responses.
//!
//! Each test has its own instance of news, because the circuit breaker keeps a state.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use testkit::client::Response;
use testkit::faults::{Fault, FaultProxy};
use testkit::service::Running;

use crate::{
    Author, author_at, embed, embed_snapshot, eventually, guid, read_snapshot, selections, snapshot_path,
    start, take_path, text, text_block, wait_until_detached,
};

/// An instance of news with an author, and the proxy between it and selections.
pub struct Fixture {
    pub proxy: FaultProxy,
    pub news: Running,
    pub author: Author,
    /// A post with the text "kept".
    pub post: String,
    pub selection: String,
    /// Number of edits, which makes each edit a change.
    edits: AtomicUsize,
}

impl Fixture {
    pub async fn new() -> Self {
        let proxy = FaultProxy::start(selections().internal_url());
        let news = start(&proxy.url());
        let author = author_at(&news);
        let post = author.create_post_of([text_block("kept")]).await;
        let selection = author.create_selection().await;
        Self { proxy, news, author, post, selection, edits: AtomicUsize::new(0) }
    }

    /// Sends an edit that embeds the selection.
    pub async fn edit(&self) -> Response {
        let number = self.edits.fetch_add(1, Ordering::Relaxed);
        self.author.set_blocks(&self.post, [text_block(&number.to_string()), embed(&self.selection)]).await
    }

    pub fn attempts(&self) -> usize {
        self.proxy.calls(take_path(&self.selection)).len()
    }

    async fn assert_nothing_is_saved(&self) {
        let read = self.author.read(&self.post).await;
        assert_eq!(
            (&read["Blocks"][0]["Text"], read["Blocks"].as_array().unwrap().len()),
            (&json!("kept"), 1)
        );
        assert_eq!(read["Version"], 2);
    }

    /// Checks that a snapshot of the failed edit is detached once its claim is due.
    async fn assert_orphan_is_detached(&self) {
        let body = json!({"PostId": self.post, "ActorUserId": self.author.id});
        let take = format!("/api/v1{}", take_path(&self.selection));
        let orphan = selections().machine("news").post(&take, body).await.body["SnapshotId"].take();
        let sql = self.news.sql().await;
        eventually("the claim is settled", async || {
            sql.execute("update snapshot_claim set due_at = now()", &[]).await.unwrap();
            let open = "select count(*) from snapshot_claim";
            (sql.query_one(open, &[]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
        })
        .await;
        assert_eq!(wait_until_detached(text(&orphan)).await, "BlockReplaced");
    }
}

/// Expects 503 `NEWS_SELECTIONS_UNAVAILABLE` with `Retry-After` and without the cause.
#[track_caller]
pub fn assert_unavailable(response: Response) {
    let wait: Option<u64> = response.header("retry-after").parse().ok();
    assert!(
        wait.is_some_and(|seconds| (1..=60).contains(&seconds)),
        "{:?}: {}",
        response.headers,
        response.text
    );
    let problem = response.expect_problem(503, "NEWS_SELECTIONS_UNAVAILABLE").to_string();
    assert!(!problem.contains("127.0.0.1") && !problem.contains("SELECTIONS_NEWER"), "{problem}");
}

/// Checks that an edit fails after three attempts and saves nothing, and that a later one succeeds.
async fn assert_fails_after_three_attempts(fault: Fault) {
    assert_fails_after(3, fault).await;
}

async fn assert_fails_after(attempts: usize, fault: Fault) {
    let fixture = Fixture::new().await;
    fixture.proxy.inject(take_path(&fixture.selection), fault.clone());

    assert_unavailable(fixture.edit().await);

    assert_eq!(fixture.attempts(), attempts, "{fault:?}");
    fixture.assert_nothing_is_saved().await;
    fixture.proxy.remove_faults();
    fixture.assert_orphan_is_detached().await;
    fixture.edit().await.expect(200);
}

/// RULE-NWS-019, RULE-NWS-053: 500 is no transient failure, so the edit fails after one attempt.
#[tokio::test]
async fn internal_error_is_not_retried() {
    assert_fails_after(1, Fault::problem(500, "SELECTIONS_INTERNAL_ERROR")).await;
}

/// RULE-NWS-015, RULE-NWS-017: 503 is retried twice, and a later edit succeeds.
#[tokio::test]
async fn service_unavailable_without_a_body_is_retried_twice() {
    assert_fails_after_three_attempts(Fault::Respond(503, String::new())).await;
}

/// RULE-NWS-017: a gateway's 502 and 504 are retried twice.
#[tokio::test]
async fn response_of_a_gateway_is_retried_twice() {
    for status in [502, 504] {
        assert_fails_after_three_attempts(Fault::Respond(status, "<html>".to_owned())).await;
    }
}

/// RULE-NWS-017: a lost race is retried twice, since taking is idempotent.
#[tokio::test]
async fn lost_race_is_retried_twice() {
    assert_fails_after_three_attempts(Fault::problem(409, "SELECTIONS_CONCURRENCY_CONFLICT")).await;
    let fixture = Fixture::new().await;
    let lost = Fault::problem(409, "SELECTIONS_CONCURRENCY_CONFLICT");
    fixture.proxy.inject_next(2, take_path(&fixture.selection), lost);
    fixture.edit().await.expect(200);
}

/// RULE-NWS-019, RULE-NWS-024: an address without the routes of selections makes it unavailable,
/// and no source counts as deleted. The claims of the edit stay.
#[tokio::test]
async fn wrong_address_of_selections_is_not_a_deleted_source() {
    let news = start(&selections().public_url());
    let author = author_at(&news);
    let post = author.create_post_of([text_block("kept")]).await;
    let selection = author.create_selection().await;
    assert_unavailable(author.set_blocks(&post, [embed(&selection)]).await);
    let sql = news.sql().await;
    sql.execute("update snapshot_claim set due_at = now()", &[]).await.unwrap();
    eventually("the claim is postponed", async || {
        let postponed = "select count(*) from snapshot_claim where due_at > now()";
        (sql.query_one(postponed, &[]).await.unwrap().get::<_, i64>(0) == 1).then_some(())
    })
    .await;
}

/// RULE-NWS-017: 429 is retried twice.
#[tokio::test]
async fn rate_limited_call_is_retried_twice() {
    assert_fails_after_three_attempts(Fault::problem(429, "SELECTIONS_RATE_LIMITED")).await;
}

/// RULE-NWS-019: a closed connection is retried twice, then the edit returns 503.
#[tokio::test]
async fn closed_connection_is_retried_twice() {
    assert_fails_after_three_attempts(Fault::Drop).await;
}

/// RULE-NWS-019: a truncated response is retried twice, then the edit returns 503.
#[tokio::test]
async fn truncated_response_is_retried_twice() {
    assert_fails_after_three_attempts(Fault::Truncate).await;
}

/// RULE-NWS-019: a response that is not HTTP is retried twice, then the edit returns 503.
#[tokio::test]
async fn response_without_http_is_retried_twice() {
    assert_fails_after_three_attempts(Fault::Garbage).await;
}

/// RULE-NWS-019: a response above the limit is retried twice, then the edit returns 503.
#[tokio::test]
async fn oversized_response_is_retried_twice() {
    assert_fails_after_three_attempts(Fault::Huge(64 * 1024 * 1024)).await;
}

/// RULE-NWS-019: taking is idempotent, so that a lost response does not make a second snapshot.
#[tokio::test]
async fn lost_response_leaves_one_snapshot() {
    assert_fails_after_three_attempts(Fault::LoseResponse).await;
}

/// Checks that an attempt times out after 5 seconds, and that the edit fails after 2 retries.
async fn assert_times_out(fault: Fault) {
    let fixture = Fixture::new().await;
    fixture.proxy.inject(take_path(&fixture.selection), fault);

    assert_unavailable(fixture.edit().await);

    assert_eq!(fixture.attempts(), 3);
    fixture.assert_nothing_is_saved().await;
    fixture.proxy.remove_faults();
    fixture.assert_orphan_is_detached().await;
}

/// RULE-NWS-017: three attempts that are slow, or silent after the headers, return 503.
#[tokio::test]
async fn attempts_that_time_out_make_selections_unavailable() {
    let slow = assert_times_out(Fault::Delay(Duration::from_secs(20)));
    futures_util::future::join(slow, assert_times_out(Fault::HangAfterHeaders)).await;
}

/// RULE-NWS-017: a response after 4 seconds is in time.
#[tokio::test]
async fn response_after_four_seconds_is_in_time() {
    let fixture = Fixture::new().await;
    fixture.proxy.inject(take_path(&fixture.selection), Fault::Delay(Duration::from_secs(4)));
    fixture.edit().await.expect(200);
    assert_eq!(fixture.attempts(), 1);
}

/// RULE-NWS-017: a response after 6 seconds is too late, and the retry succeeds.
#[tokio::test]
async fn response_after_six_seconds_is_retried() {
    let fixture = Fixture::new().await;
    fixture.proxy.inject_next(1, take_path(&fixture.selection), Fault::Delay(Duration::from_secs(6)));
    fixture.edit().await.expect(200);
    assert_eq!(fixture.attempts(), 2);
}

/// RULE-NWS-017: the edit succeeds if a retry succeeds.
#[tokio::test]
async fn successful_retry_hides_the_failure() {
    for faults in [
        vec![Fault::Drop, Fault::problem(503, "X")],
        vec![Fault::LoseResponse],
        vec![Fault::Respond(429, String::new())],
    ] {
        let fixture = Fixture::new().await;
        for fault in faults.iter().rev() {
            fixture.proxy.inject_next(1, take_path(&fixture.selection), fault.clone());
        }
        let saved = fixture.edit().await.expect(200);
        assert_eq!(fixture.attempts(), faults.len() + 1);
        assert_eq!(saved["EmbedSnapshotIds"].as_array().unwrap().len(), 1);
        assert_eq!(fixture.author.read(&fixture.post).await["Blocks"][1]["ItemsCount"], 3);
    }
}

/// RULE-NWS-017: a refusal of selections is not retried, whatever it means for the edit.
#[tokio::test]
async fn refusal_is_not_retried() {
    let fixture = Fixture::new().await;
    for (fault, status, code) in [
        (Fault::problem(404, "SELECTIONS_NOT_FOUND"), 400, "NEWS_SELECTION_SOURCE_DELETED"),
        (Fault::problem(400, "SELECTIONS_SOURCE_DELETED"), 400, "NEWS_SELECTION_SOURCE_DELETED"),
        (Fault::problem(400, "SELECTIONS_SOURCE_EMPTY"), 400, "NEWS_SELECTION_SOURCE_EMPTY"),
        (Fault::problem(400, "SELECTIONS_NEWER_THAN_US"), 503, "NEWS_SELECTIONS_UNAVAILABLE"),
        (Fault::problem(400, "SELECTIONS_VALIDATION_FAILED"), 503, "NEWS_SELECTIONS_UNAVAILABLE"),
        (Fault::problem(403, "SELECTIONS_FORBIDDEN"), 503, "NEWS_SELECTIONS_UNAVAILABLE"),
        (Fault::problem(413, "SELECTIONS_PAYLOAD_TOO_LARGE"), 503, "NEWS_SELECTIONS_UNAVAILABLE"),
    ] {
        fixture.proxy.remove_faults();
        fixture.proxy.inject(take_path(&fixture.selection), fault.clone());
        let before = fixture.attempts();
        let refused = fixture.edit().await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (status, &json!(code)),
            "{fault:?}: {}",
            refused.text
        );
        assert_eq!(fixture.attempts() - before, 1, "{fault:?}");
        fixture.assert_nothing_is_saved().await;
    }
}

/// RULE-NWS-019: a response that selections does not document results in 503, whatever its status.
#[tokio::test]
async fn unexpected_response_makes_selections_unavailable() {
    let foreign = r#"{"SnapshotId":"x","PublicCode":1}"#;
    for (status, body) in
        [(200, "<html>"), (200, "{}"), (200, foreign), (201, ""), (404, "<html>"), (400, "{}"), (302, "")]
    {
        let fixture = Fixture::new().await;
        fixture.proxy.inject(take_path(&fixture.selection), Fault::Respond(status, body.to_owned()));
        assert_unavailable(fixture.edit().await);
        assert_eq!(fixture.attempts(), 1, "{status} {body}");
        fixture.assert_nothing_is_saved().await;
    }
}

/// RULE-NWS-010: a snapshot that cannot be looked up returns 503 and not 422.
#[tokio::test]
async fn failed_snapshot_lookup_makes_selections_unavailable() {
    let fixture = Fixture::new().await;
    let snapshot = guid().to_string();
    fixture.proxy.inject(snapshot_path(&snapshot), Fault::problem(503, "SELECTIONS_SERVICE_UNAVAILABLE"));
    let refused = fixture
        .author
        .set_blocks(&fixture.post, [embed_snapshot(&snapshot), embed(&fixture.selection)])
        .await;
    assert_unavailable(refused);
    assert_eq!((fixture.proxy.calls(snapshot_path(&snapshot)).len(), fixture.attempts()), (3, 0));
    fixture.assert_nothing_is_saved().await;
}

/// RULE-NWS-011, RULE-NWS-024: if a later block fails, the snapshots of earlier blocks are
/// detached.
#[tokio::test]
async fn failed_later_block_detaches_snapshots_of_earlier_blocks() {
    let fixture = Fixture::new().await;
    let later = fixture.author.create_selection().await;
    fixture.proxy.inject(take_path(&later), Fault::problem(500, "SELECTIONS_INTERNAL_ERROR"));
    assert_unavailable(
        fixture.author.set_blocks(&fixture.post, [embed(&fixture.selection), embed(&later)]).await,
    );
    assert_eq!(fixture.attempts(), 1);
    fixture.assert_nothing_is_saved().await;
    fixture.proxy.remove_faults();
    fixture.assert_orphan_is_detached().await;
}

/// RULE-NWS-012, RULE-NWS-019: an edit without calls succeeds, and its detachments wait until
/// selections returns.
#[tokio::test]
async fn edit_without_calls_succeeds_while_selections_is_down() {
    let fixture = Fixture::new().await;
    let snapshot = text(&fixture.edit().await.expect(200)["EmbedSnapshotIds"][0]).to_owned();
    fixture.proxy.refuse();
    fixture.author.set_blocks(&fixture.post, [embed_snapshot(&snapshot), text_block("x")]).await.expect(200);
    fixture.author.set_blocks(&fixture.post, [text_block("y")]).await.expect(200);
    fixture.author.change_status(&fixture.post, "publish").await.expect(200);
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");
    fixture.proxy.listen();
    assert_eq!(wait_until_detached(&snapshot).await, "BlockReplaced");
}

/// RULE-NWS-020: the circuit breaker opens while selections is down, and closes afterwards.
#[tokio::test]
async fn breaker_opens_during_an_outage_and_closes_afterwards() {
    let fixture = Fixture::new().await;
    fixture.proxy.refuse();
    for _ in 0..12 {
        assert_unavailable(fixture.edit().await);
    }
    fixture.assert_nothing_is_saved().await;

    fixture.proxy.listen();

    eventually("the breaker is closed", async || (fixture.edit().await.status == 200).then_some(())).await;
    for _ in 0..5 {
        fixture.edit().await.expect(200);
    }
}

/// RULE-NWS-020: an open circuit breaker permits few calls.
#[tokio::test]
async fn open_breaker_makes_few_calls() {
    let fixture = Fixture::new().await;
    fixture.proxy.inject(take_path(&fixture.selection), Fault::problem(500, "SELECTIONS_INTERNAL_ERROR"));
    for _ in 0..30 {
        assert_unavailable(fixture.edit().await);
    }
    // Ten calls open the breaker, and few calls probe it afterwards.
    assert!(fixture.attempts() < 20, "{} attempts for 30 edits", fixture.attempts());
}

/// RULE-NWS-021: concurrent readers share one fetch, and a failure is not cached.
#[tokio::test]
async fn concurrent_readers_share_one_fetch() {
    let fixture = Fixture::new().await;
    let snapshot = text(&fixture.edit().await.expect(200)["EmbedSnapshotIds"][0]).to_owned();
    let items = async || fixture.author.read(&fixture.post).await["Blocks"][1]["Items"].take();
    fixture.proxy.inject(snapshot_path(&snapshot), Fault::problem(500, "SELECTIONS_INTERNAL_ERROR"));
    assert_eq!(items().await, json!(null));
    let failed = fixture.proxy.calls(snapshot_path(&snapshot)).len();
    fixture.proxy.inject(snapshot_path(&snapshot), Fault::Delay(Duration::from_secs(1)));

    let read = join_all((0..20).map(async |_| items().await)).await;

    assert!(read.iter().all(|items| items.as_array().is_some_and(|items| items.len() == 3)), "{read:?}");
    assert_eq!(fixture.proxy.calls(snapshot_path(&snapshot)).len() - failed, 1);
}

/// RULE-NWS-020: refusals are responses, so they do not open the circuit breaker.
#[tokio::test]
async fn refusals_do_not_open_the_breaker() {
    let fixture = Fixture::new().await;
    for _ in 0..30 {
        let refused = fixture.author.set_blocks(&fixture.post, [embed(&guid().to_string())]).await;
        refused.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
    }
    fixture.edit().await.expect(200);
}

/// RULE-NWS-019: an edit returns 503 if nothing listens at the address of selections.
#[tokio::test]
async fn unreachable_selections_returns_503() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let news = start(&format!("http://{address}"));
    let author = author_at(&news);
    let post = author.create_post_of([text_block("kept")]).await;
    assert_unavailable(author.set_blocks(&post, [embed(&guid().to_string())]).await);
    assert_eq!(author.read(&post).await["Blocks"][0]["Text"], "kept");
}
