//! A relay that was away for long, or that has more to do than it ever had.

use std::time::{Duration, Instant};

use testkit::history::Fault;

use crate::rig::{COUNTED, Rig, UPSERTED, eventually};

/// `BACKLOG=1000000` for the real thing.
#[expect(clippy::disallowed_methods, reason = "a test is configured by its own environment")]
fn size() -> i64 {
    std::env::var("BACKLOG").map_or(200_000, |size| size.parse().unwrap())
}

#[tokio::test]
async fn a_backlog_drains_in_order_and_gives_its_space_back() {
    let rig = Rig::new().await;
    rig.bulk(size()).await;
    let table = "select pg_total_relation_size('outbox')";
    let full = rig.number(table).await;
    let started = Instant::now();
    let _worker = rig.work().await;
    // As long as it takes, if only it gets on.
    let mut left = size();
    while left > 0 {
        let before = left;
        eventually("progress", async || {
            left = rig.number("select count(*) from outbox").await;
            left < before
        })
        .await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let took = started.elapsed();
    rig.read_all().await;
    let verdict = rig.verdict().await;
    assert!(verdict.faults.is_empty(), "{} lost", verdict.count(Fault::Lost));
    rig.db.batch_execute("vacuum outbox").await.unwrap();
    let drained = rig.number(table).await;
    eprintln!("{} drained in {took:.1?}; {full} bytes, then {drained}", size());
    assert!(drained < full / 4, "{full} bytes, then {drained}");
}

/// What a relay without work has prepared is planned for an outbox that is all but empty: every batch of
/// a backlog would be looked for in the whole of it.
#[tokio::test]
async fn a_relay_that_had_little_to_do_does_not_go_through_a_backlog_for_each_batch() {
    const BACKLOG: i64 = 50_000;
    let rig = Rig::new().await;
    rig.db.batch_execute("vacuum analyze outbox").await.unwrap();
    let worker = rig.work().await;
    // More often than PostgreSQL plans a statement anew, on each connection.
    for sent in 1..=100 {
        rig.bulk(1).await;
        eventually("the event", async || rig.log.count() == sent).await;
    }
    let before = rig.read_sequentially("outbox").await;
    // As large as events are: a small table is gone through for less than 500 rows are found by an index.
    rig.bulk_of(BACKLOG, 1000).await;
    eventually("the backlog", async || rig.log.count() >= 50_100).await;
    assert!(worker.terminate().await.success());
    // A connection tells what it has read when it ends, at the latest; a pooler would keep it.
    eventually("the end of its connections", async || rig.disconnect().await == 0).await;
    let read = rig.read_sequentially("outbox").await - before;
    eprintln!("{read} rows read one after the other for a backlog of {BACKLOG}");
    assert!(read < 5 * BACKLOG, "{read} rows read one after the other");
}

#[tokio::test]
async fn what_was_seen_is_forgotten_when_kafka_has_long_dropped_it() {
    let rig = Rig::new().await;
    let topics = format!(
        "{{dead_letters: {{partitions: 1, retention_days: 30}}, topics: \
         [{{name: {COUNTED}, owner: ledger, key: the account's id, partitions: 4, retention_days: 14}}]}}"
    );
    let _worker = rig.start("work", &[("KAFKA_TOPICS", &topics)]).await;
    rig.step().await;
    rig.applied(8).await;
    let keys = rig.keys().await;
    let date = async |key: &str, topic: &str, days: i32, blocked: bool| {
        let set =
            "update inbox set seen_on = current_date - $1::integer, topic = $2, blocked = $3 where key = $4";
        rig.db.execute(set, &[&days, &topic, &blocked, &key]).await.unwrap();
    };
    date(&keys[1], COUNTED, 27, false).await;
    date(&keys[2], COUNTED, 29, true).await;
    date(&keys[3], UPSERTED, 1000, false).await;
    date(&keys[0], COUNTED, 29, false).await;
    eventually("the oldest", async || rig.number("select count(*) from inbox").await == 7).await;
    let gone = format!("select count(*) from inbox where key = '{}'", keys[0]);
    assert_eq!(rig.number(&gone).await, 0);
}

#[tokio::test]
async fn the_age_of_the_oldest_message_that_waits_is_told() {
    let rig = Rig::new().await;
    let worker = rig.work().await;
    let key = &rig.keys().await[0];
    rig.poison(key, "later").await;
    rig.step().await;
    let age = async || worker.metric("consumer_oldest_seconds").await;
    eventually("some age", async || age().await > 2.0).await;
    rig.cure().await;
    eventually("nothing that waits", async || age().await == 0.0).await;
}
