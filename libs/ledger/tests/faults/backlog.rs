//! A relay that was away for long, or that has more to do than it ever had.

use std::time::{Duration, Instant};

use testkit::history::Fault;

use crate::rig::{Rig, eventually};

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
    eventually("the log's end", async || rig.log.at_end()).await;
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
