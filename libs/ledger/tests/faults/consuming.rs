//! Messages that come twice, in another order, or to a consumer that is about to lose them.

use std::collections::BTreeMap;
use std::time::Duration;

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
    eventually("a rebalance", async || second.logged("message not applied yet, retrying").is_some()).await;
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
    eventually("a rebalance", async || second.logged("message not applied yet, retrying").is_some()).await;
    lock.release().await;
    rig.clean().await;
}

#[tokio::test]
async fn a_consumer_that_is_killed_before_its_offsets_are_kept_applies_nothing_twice() {
    let rig = Rig::new().await;
    let mut worker = rig.work().await;
    let (mut applied, mut repeated) = (0, false);
    let mut step = async || {
        rig.step().await;
        applied += 8;
        rig.applied(applied).await;
    };
    step().await;
    // Now and then it keeps them in the moment before it is killed.
    for _ in 0..10 {
        step().await;
        worker.kill();
        worker = rig.work().await;
        step().await;
        repeated |= worker.metric("consumer_duplicates_total").await >= 1.0;
        if repeated {
            break;
        }
    }
    assert!(repeated, "nothing that was seen came again");
    rig.clean().await;
}

#[tokio::test]
async fn the_consumers_of_a_process_apply_four_messages_at_once_and_hold_what_they_may() {
    const BUDGET: i32 = 1_000_000;
    const MESSAGE: i32 = 50_000;
    let rig = Rig::new().await;
    let settings = [("KAFKA_CONSUMER_BYTES", "1000000"), ("LEDGER_WRITERS", "0"), ("LEDGER_REMARKERS", "8")];
    let worker = rig.start("both", &settings).await;
    rig.step().await;
    let groups = "select count(distinct consumer) from inbox";
    eventually("both groups", async || rig.number(groups).await == 2).await;
    let lock = rig.lock("inbox").await;
    for _ in 0..60 {
        rig.step_with("%", MESSAGE).await;
    }
    // Both groups have more to do than that.
    rig.blocked(4, "insert into \"inbox\"%").await;
    let held = async || worker.metric("consumer_held_bytes").await;
    eventually("the budget's end", async || held().await > f64::from(BUDGET / 2)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let at_once = "select count(*) from pg_stat_activity where datname = current_database() \
        and wait_event_type = 'Lock' and query ilike 'insert into \"inbox\"%'";
    assert_eq!(rig.number(at_once).await, 4);
    // Of each of its eight partitions one message may come that is too much.
    let held = held().await;
    assert!(held <= f64::from(BUDGET + 8 * (MESSAGE + 2_000)), "{held}");
    lock.release().await;
    assert!(worker.terminate().await.success());
    let _worker = rig.work().await;
    rig.clean().await;
}
