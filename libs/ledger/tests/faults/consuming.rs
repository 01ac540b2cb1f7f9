//! Messages that arrive twice, in another order, or at a consumer that loses its partition.

use std::collections::BTreeMap;
use std::time::Duration;

use testkit::history::Fault;

use crate::controls::{NaiveRelay, Row};
use crate::rig::{Rig, eventually};

/// RULE-EVT-035: messages that arrive twice and shuffled across keys are applied once and in order.
#[tokio::test]
async fn repeated_and_shuffled_messages_are_applied_once_in_order() {
    let rig = Rig::new().await;
    for _ in 0..50 {
        rig.step().await;
    }
    let relay = NaiveRelay::new(&rig);
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
    let _worker = rig.start_worker().await;
    // The rows are deleted, so that the relay of the worker does not send them as well.
    relay.delete(&rows).await;
    relay.send(shuffled).await;
    relay.send(&rows).await;
    rig.wait_until_settled().await;
    // A repetition after later events of its key is stale in the log.
    let verdict = rig.verdict().await;
    assert!(verdict.faults.iter().all(|(fault, ..)| *fault == Fault::Stale), "{verdict:?}");
    assert_eq!(rig.miscounted_accounts().await, 0);
}

/// RULE-EVT-035: a consumer that loses its partition during a handler applies nothing twice.
#[tokio::test]
async fn rebalance_during_a_handler_applies_nothing_twice() {
    let rig = Rig::new().await;
    let first = rig.start_worker().await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    let lock = rig.lock("applied").await;
    for _ in 0..5 {
        rig.step().await;
    }
    rig.wait_until_blocked(1, "insert into applied%").await;
    let second = rig.start_worker().await;
    eventually("a rebalance", async || second.find_log_line("message not applied yet, retrying").is_some())
        .await;
    lock.release().await;
    rig.expect_no_faults().await;
    drop(first);
}

/// RULE-EVT-035: a paused partition continues at its next consumer.
#[tokio::test]
async fn paused_partition_continues_after_a_rebalance() {
    let rig = Rig::new().await;
    let _first = rig.start_worker().await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    let lock = rig.lock("applied").await;
    // More than a consumer buffers: 5 MB of each key.
    for _ in 0..100 {
        rig.step_with("%", 50_000).await;
    }
    eventually("an empty outbox", async || rig.query_number("select count(*) from outbox").await == 0).await;
    let second = rig.start_worker().await;
    eventually("a rebalance", async || second.find_log_line("message not applied yet, retrying").is_some())
        .await;
    lock.release().await;
    rig.expect_no_faults().await;
}

/// RULE-EVT-035: a consumer that is killed before it commits its offsets applies nothing twice.
#[tokio::test]
async fn consumer_killed_before_its_offset_commit_applies_nothing_twice() {
    let rig = Rig::new().await;
    let mut worker = rig.start_worker().await;
    let (mut applied, mut repeated) = (0, false);
    let mut step = async || {
        rig.step().await;
        applied += 8;
        rig.wait_until_applied(applied).await;
    };
    step().await;
    // Sometimes the consumer commits its offsets just before it is killed.
    for _ in 0..10 {
        step().await;
        worker.kill();
        worker = rig.start_worker().await;
        step().await;
        repeated |= worker.metric("consumer_duplicates_total").await >= 1.0;
        if repeated {
            break;
        }
    }
    assert!(repeated, "no message was delivered again");
    rig.expect_no_faults().await;
}

/// RULE-EVT-035: the consumers of a process apply messages in up to four transactions at once, and
/// share one byte budget.
#[tokio::test]
async fn consumers_of_a_process_share_four_slots_and_a_byte_budget() {
    const BUDGET: i32 = 1_000_000;
    const MESSAGE: i32 = 50_000;
    let rig = Rig::new().await;
    let settings = [("KAFKA_CONSUMER_BYTES", "1000000"), ("LEDGER_WRITERS", "0"), ("LEDGER_REMARKERS", "8")];
    let worker = rig.start("both", &settings).await;
    rig.step().await;
    let groups = "select count(distinct consumer) from inbox";
    eventually("receipts of both groups", async || rig.query_number(groups).await == 2).await;
    let lock = rig.lock("inbox").await;
    for _ in 0..60 {
        rig.step_with("%", MESSAGE).await;
    }
    // Each group has more messages than there are slots.
    rig.wait_until_blocked(4, "select % from inbox_receive(%").await;
    let buffered = async || worker.metric("consumer_held_bytes").await;
    // Each of the twelve partitions has a twelfth of the budget. A partition without a key leaves
    // its share unused.
    eventually("buffered messages", async || buffered().await > f64::from(BUDGET / 5)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let concurrent = "select count(*) from pg_stat_activity where datname = current_database() \
        and wait_event_type = 'Lock' and query ilike 'select % from inbox_receive(%'";
    // A consumer that timed out while it waited for the lock may not have started its statement
    // again.
    assert!(rig.query_number(concurrent).await <= 4);
    // Each partition may exceed its share by one message.
    let buffered = buffered().await;
    assert!(buffered <= f64::from(BUDGET + 12 * (MESSAGE + 2_000)), "{buffered}");
    lock.release().await;
    assert!(worker.terminate().await.success());
    let _worker = rig.start_worker().await;
    rig.expect_no_faults().await;
}
