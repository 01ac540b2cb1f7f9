//! Messages that share a transaction: one of them fails, or the process is killed.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};
use serde_json::json;

use crate::replica::Replica;
use crate::rig::{COUNTED, OpenTransaction, Rig, eventually, stream_of};
use crate::states::{send_state, wait_until_stored};

/// The number of messages of the largest transaction of the consumer.
const LARGEST: &str =
    "select max(size) from (select count(*) as size from applied group by xmin::text) as transactions";

/// Applies the first event of each account, then locks the table of the consumer.
async fn start_and_lock(rig: &Rig) -> (Replica, OpenTransaction) {
    let worker = rig.start_worker().await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    (worker, rig.lock("applied").await)
}

async fn wait_until_logged(rig: &Rig, count: usize) {
    eventually("the events in the log", async || rig.log.count() >= count).await;
}

/// RULE-EVT-047: messages that are ready together share a transaction, and are applied once and in
/// order.
#[tokio::test]
async fn messages_that_are_ready_together_share_a_transaction() {
    let rig = Rig::new().await;
    let (_worker, lock) = start_and_lock(&rig).await;
    for _ in 0..50 {
        rig.step().await;
    }
    wait_until_logged(&rig, 408).await;
    lock.release().await;
    rig.expect_no_faults().await;
    let largest = rig.query_number(LARGEST).await;
    assert!((2..=64).contains(&largest), "{largest} messages in a transaction");
}

/// RULE-EVT-047: a message that cannot be applied becomes a dead letter alone. The other messages
/// of its batch are applied once and in order.
#[tokio::test]
async fn poisoned_message_of_a_batch_is_dead_lettered_alone() {
    let rig = Rig::new().await;
    let (worker, lock) = start_and_lock(&rig).await;
    for _ in 0..3 {
        rig.step().await;
    }
    wait_until_logged(&rig, 32).await;
    let producer: FutureProducer =
        ClientConfig::new().set("bootstrap.servers", &rig.servers).create().unwrap();
    for partition in 0..4 {
        let key = format!("poisoned {partition}");
        let poisoned = FutureRecord::to(COUNTED).key(&key).payload("[]").partition(partition);
        producer.send(poisoned, Duration::from_secs(20)).await.unwrap();
    }
    for _ in 0..3 {
        rig.step().await;
    }
    // In a partition without an account, the poisoned message is dead-lettered at once, so the log
    // may also have its copy.
    wait_until_logged(&rig, 60).await;
    eventually("an empty outbox", async || rig.query_number("select count(*) from outbox").await == 0).await;
    lock.release().await;
    rig.wait_until_settled().await;
    let poisoned = "select count(distinct key) from dead_letter where key like 'poisoned%'";
    eventually("the dead letters", async || rig.query_number(poisoned).await == 4).await;
    assert_eq!(rig.query_number("select count(*) from dead_letter").await, 4);
    assert_eq!(rig.miscounted_accounts().await, 0);
    assert!(worker.metric("consumer_split_batches_total").await >= 1.0, "no message failed within a batch");
}

/// RULE-EVT-047: a message that is retried delays the later messages of its batch. The earlier
/// messages are applied at once.
#[tokio::test]
async fn retried_message_of_a_batch_delays_only_later_ones() {
    let rig = Rig::new().await;
    let (_worker, lock) = start_and_lock(&rig).await;
    let (first, second) = keys_of_one_partition(&rig).await;
    for key in [&first, &first, &second, &first] {
        rig.step_with(key, 0).await;
    }
    wait_until_logged(&rig, 12).await;
    rig.poison(&second, "later").await;
    lock.release().await;
    rig.wait_until_applied(10).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.query_number("select count(*) from applied").await, 10);
    rig.remove_poison().await;
    rig.expect_no_faults().await;
}

/// RULE-EVT-047, RULE-EVT-029: a process that is killed in the middle of a batch has applied no
/// message of the batch. The next process applies each message once.
#[tokio::test]
async fn batch_of_a_killed_process_is_applied_once() {
    let rig = Rig::new().await;
    let (worker, lock) = start_and_lock(&rig).await;
    let (first, second) = keys_of_one_partition(&rig).await;
    for key in [&first, &first, &second] {
        rig.step_with(key, 0).await;
    }
    for _ in 0..5 {
        rig.step().await;
    }
    wait_until_logged(&rig, 51).await;
    rig.poison(&second, "locked").await;
    let holder = rig.begin().await;
    holder.execute("select from poison for update").await;
    lock.release().await;
    rig.wait_until_blocked(1, "select from poison where kind%").await;
    worker.kill();
    // The server would continue the statement, since it has not noticed the end of the process.
    rig.terminate_connections().await;
    let of_first = format!("select count(*) from applied where key = '{first}'");
    assert_eq!(rig.query_number(&of_first).await, 2, "events that were applied before the batch");
    holder.release().await;
    rig.remove_poison().await;
    let _worker = rig.start_worker().await;
    rig.expect_no_faults().await;
    assert!(rig.query_number(LARGEST).await > 1, "no transaction with several messages");
}

/// RULE-EVT-047: a batch that waits for a free transaction slot is not applied after the process
/// has received the stop signal. The next process applies it.
#[tokio::test]
async fn waiting_batch_of_a_stopping_process_is_not_applied() {
    let rig = Rig::new().await;
    let worker = rig.start("work", &[("DATABASE_STATEMENT_TIMEOUT_MS", "60000")]).await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    let key = &rig.keys().await[0];
    // The first state takes one of the four transaction slots. Three of the four partitions of
    // counts take the others.
    let states = rig.lock("account_replica").await;
    send_state(&rig, key, 1, 1).await;
    rig.wait_until_blocked(1, "insert into account_replica%").await;
    let counts = rig.lock("applied").await;
    for partition in 0..4 {
        send_count(&rig, partition).await;
    }
    rig.wait_until_blocked(3, "insert into applied%").await;
    for n in [2, 3] {
        send_state(&rig, key, n, n).await;
    }
    rig.wait_until_read().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    states.release().await;
    wait_until_stored(&rig, key, 1).await;
    // The fourth partition of counts takes the free slot, so the other states wait for one.
    rig.wait_until_blocked(4, "insert into applied%").await;

    let stopping = worker.terminate();
    let release = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        counts.release().await;
    };
    let (exit, ()) = tokio::join!(stopping, release);
    assert!(exit.success());
    wait_until_stored(&rig, key, 1).await;

    let _worker = rig.start_worker().await;
    wait_until_stored(&rig, key, 3).await;
}

/// Sends the first count of an account that does not exist to a partition. Each partition has its
/// own key.
async fn send_count(rig: &Rig, partition: i32) {
    let producer: FutureProducer =
        ClientConfig::new().set("bootstrap.servers", &rig.servers).create().unwrap();
    let key = format!("00000000-0000-7000-8000-00000000000{partition}");
    let count = json!({"Key": key, "N": 1}).to_string();
    let record = FutureRecord::to(COUNTED).key(&key).payload(&count).partition(partition);
    producer.send(record, Duration::from_secs(20)).await.unwrap();
}

/// Returns two keys whose events have the same partition. Such keys exist, since eight keys share
/// four partitions.
async fn keys_of_one_partition(rig: &Rig) -> (String, String) {
    wait_until_logged(rig, 8).await;
    let keys = rig.keys().await;
    let partition = |key: &String| rig.log.partition(&stream_of(key)).unwrap();
    let pairs = keys.iter().enumerate().flat_map(|(n, key)| keys[..n].iter().map(move |other| (other, key)));
    let (first, second) = pairs.into_iter().find(|(one, other)| partition(one) == partition(other)).unwrap();
    (first.clone(), second.clone())
}
