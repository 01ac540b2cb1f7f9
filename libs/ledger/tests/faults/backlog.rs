//! A relay that was away for long.

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
