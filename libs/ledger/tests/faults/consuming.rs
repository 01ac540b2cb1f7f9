//! Messages that come twice, in another order, or to a consumer that is about to lose them.

use std::collections::BTreeMap;

use testkit::history::Fault;

use crate::controls::{Naive, Row};
use crate::rig::{Rig, eventually};

#[tokio::test]
async fn messages_that_come_twice_and_shuffled_across_keys_are_applied_once_in_order() {
    let rig = Rig::new().await;
    for _ in 0..50 {
        rig.step().await;
    }
    let relay = Naive::new(&rig);
    let rows = relay.pending(0).await;
    let mut by_key: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in &rows {
        by_key.entry(&row.key).or_default().push(row);
    }
    let mut by_key: Vec<_> = by_key.into_values().map(|rows| (0, rows)).collect();
    let mut shuffled = Vec::new();
    while !by_key.is_empty() {
        let at = rand::random_range(0..by_key.len());
        let (sent, of_key) = &mut by_key[at];
        shuffled.push(of_key[*sent]);
        shuffled.push(of_key[rand::random_range(0..=*sent)]);
        *sent += 1;
        if *sent == of_key.len() {
            by_key.swap_remove(at);
        }
    }
    let _worker = rig.work().await;
    // Not a relay's rows, or the worker would send them too.
    relay.delete(&rows).await;
    relay.send(shuffled).await;
    relay.send(&rows).await;
    rig.settle().await;
    let verdict = rig.verdict().await;
    assert!(verdict.faults.iter().all(|(fault, ..)| *fault == Fault::Stale), "{verdict:?}");
    assert_eq!(rig.miscounted().await, 0);
}

#[tokio::test]
async fn a_rebalance_in_mid_handler_applies_nothing_twice() {
    let rig = Rig::new().await;
    let first = rig.work().await;
    rig.step().await;
    rig.applied(8).await;
    let lock = rig.lock("applied").await;
    for _ in 0..5 {
        rig.step().await;
    }
    rig.blocked(1, "insert into applied%").await;
    let second = rig.work().await;
    eventually("a rebalance", async || second.logged("a message waits").is_some()).await;
    lock.release().await;
    rig.clean().await;
    drop(first);
}

#[tokio::test]
async fn a_partition_that_was_paused_goes_on_after_a_rebalance() {
    let rig = Rig::new().await;
    let _first = rig.work().await;
    rig.step().await;
    rig.applied(8).await;
    let lock = rig.lock("applied").await;
    // More than a consumer takes in advance: 5 MB of each key.
    for _ in 0..100 {
        rig.step_with("%", 50_000).await;
    }
    eventually("the relay", async || rig.number("select count(*) from outbox").await == 0).await;
    let second = rig.work().await;
    eventually("a rebalance", async || second.logged("a message waits").is_some()).await;
    lock.release().await;
    rig.clean().await;
}

#[tokio::test]
async fn a_consumer_that_is_killed_before_its_offsets_are_kept_applies_nothing_twice() {
    let rig = Rig::new().await;
    let worker = rig.work().await;
    rig.step().await;
    rig.applied(8).await;
    for _ in 0..5 {
        rig.step().await;
    }
    rig.applied(48).await;
    worker.kill();
    let worker = rig.work().await;
    eventually("what was seen", async || worker.metric("consumer_duplicates_total").await >= 1.0).await;
    rig.step().await;
    rig.clean().await;
}
