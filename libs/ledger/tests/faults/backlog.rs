//! Large backlogs, and metrics and retention of the tables.

use std::time::{Duration, Instant};

use testkit::history::Fault;

use crate::rig::{COUNTED, Rig, UPSERTED, eventually};

/// Returns the number of events of a backlog. The rule requires a million: `BACKLOG=1000000`.
#[expect(clippy::disallowed_methods, reason = "a test is configured by its own environment")]
fn size() -> i64 {
    std::env::var("BACKLOG").map_or(200_000, |size| size.parse().unwrap())
}

/// RULE-EVT-042: a backlog drains in order, and the table frees its space.
#[tokio::test]
async fn backlog_drains_in_order_and_frees_its_space() {
    let rig = Rig::new().await;
    // Events of realistic size, so that the table is larger than its index. PostgreSQL reuses the
    // pages of an index and does not free them.
    rig.append_sized_bulk(size(), 200).await;
    let table = "select pg_total_relation_size('outbox')";
    let full = rig.query_number(table).await;
    let started = Instant::now();
    let _worker = rig.start_worker().await;
    // The time for the whole backlog has no limit, but each wait must see progress.
    let mut left = size();
    while left > 0 {
        let before = left;
        eventually("progress", async || {
            left = rig.query_number("select count(*) from outbox").await;
            left < before
        })
        .await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let took = started.elapsed();
    rig.wait_until_read().await;
    let verdict = rig.verdict().await;
    assert!(verdict.faults.is_empty(), "{} lost", verdict.count(Fault::Lost));
    rig.db.batch_execute("vacuum outbox").await.unwrap();
    let drained = rig.query_number(table).await;
    eprintln!("{} drained in {took:.1?}; {full} bytes, then {drained}", size());
    assert!(drained < full / 4, "{full} bytes, then {drained}");
}

/// RULE-EVT-042: a relay that was idle does not scan a new backlog for each batch. A plan for an
/// almost empty outbox would scan the whole table.
#[tokio::test]
async fn relay_after_an_idle_time_does_not_scan_a_backlog_for_each_batch() {
    const BACKLOG: i64 = 50_000;
    let rig = Rig::new().await;
    rig.db.batch_execute("vacuum analyze outbox").await.unwrap();
    let worker = rig.start_worker().await;
    // More executions than PostgreSQL plans separately on each connection.
    for sent in 1..=100 {
        rig.append_bulk(1).await;
        eventually("the event", async || rig.log.count() == sent).await;
    }
    let before = rig.sequentially_read_rows("outbox").await;
    // Events of realistic size: PostgreSQL scans a small table instead of using an index for 500
    // rows.
    rig.append_sized_bulk(BACKLOG, 1000).await;
    eventually("the backlog", async || rig.log.count() >= 50_100).await;
    assert!(worker.terminate().await.success());
    // A connection reports its statistics at its end at the latest, and a pooler would keep it
    // open.
    eventually("the end of the connections", async || rig.terminate_connections().await == 0).await;
    let read = rig.sequentially_read_rows("outbox").await - before;
    eprintln!("{read} rows read by sequential scans for a backlog of {BACKLOG}");
    assert!(read < BACKLOG, "{read} rows read by sequential scans");
}

/// RULE-EVT-039: rows of the inbox are deleted after twice the retention of the topic.
#[tokio::test]
async fn receipt_is_deleted_after_twice_the_retention_of_its_topic() {
    let rig = Rig::new().await;
    let topics = format!(
        "{{dead_letters: {{partitions: 1, retention_days: 30}}, topics: \
         [{{name: {COUNTED}, owner: ledger, key: the account's id, partitions: 4, retention_days: 14}}]}}"
    );
    let _worker = rig.start("work", &[("KAFKA_TOPICS", &topics)]).await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    let keys = rig.keys().await;
    let set_receipt = async |key: &str, topic: &str, days: i32, blocked: bool| {
        let update =
            "update inbox set seen_on = current_date - $1::integer, topic = $2, blocked = $3 where key = $4";
        rig.db.execute(update, &[&days, &topic, &blocked, &key]).await.unwrap();
    };
    set_receipt(&keys[1], COUNTED, 27, false).await;
    set_receipt(&keys[2], COUNTED, 29, true).await;
    set_receipt(&keys[3], UPSERTED, 1000, false).await;
    // A purge may run at any time, so the receipt that it deletes is set last.
    set_receipt(&keys[0], COUNTED, 29, false).await;
    eventually("the deletion of the oldest receipt", async || {
        rig.query_number("select count(*) from inbox").await == 7
    })
    .await;
    let deleted = format!("select count(*) from inbox where key = '{}'", keys[0]);
    assert_eq!(rig.query_number(&deleted).await, 0);
}

/// RULE-EVT-035: the age of the oldest waiting message is a metric.
#[tokio::test]
async fn age_of_the_oldest_waiting_message_is_a_metric() {
    let rig = Rig::new().await;
    let worker = rig.start_worker().await;
    let key = &rig.keys().await[0];
    rig.poison(key, "later").await;
    rig.step().await;
    let age = async || worker.metric("consumer_oldest_seconds").await;
    eventually("an age of two seconds", async || age().await > 2.0).await;
    rig.remove_poison().await;
    eventually("no waiting message", async || age().await == 0.0).await;
}
