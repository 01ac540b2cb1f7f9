//! Republishing corrects a compacted topic, and consumers accept the events of a restored database.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::rig::{Rig, UPSERTED, eventually};

/// Timeout of a request to the broker.
const BROKER_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the last value of each key in the topic of accounts, which compaction keeps.
pub fn compacted(rig: &Rig) -> BTreeMap<String, Option<Value>> {
    let mut client = ClientConfig::new();
    client
        .set("bootstrap.servers", &rig.servers)
        .set("group.id", "reader")
        .set("enable.auto.commit", "false");
    let reader: BaseConsumer = client.create().unwrap();
    let mut list = TopicPartitionList::new();
    let mut remaining = 0;
    for partition in 0..4 {
        list.add_partition_offset(UPSERTED, partition, Offset::Beginning).unwrap();
        remaining += reader.fetch_watermarks(UPSERTED, partition, BROKER_TIMEOUT).unwrap().1;
    }
    reader.assign(&list).unwrap();
    let mut compacted = BTreeMap::new();
    while remaining > 0 {
        let message = reader.poll(BROKER_TIMEOUT).unwrap().unwrap();
        let key = String::from_utf8(message.key().unwrap().to_vec()).unwrap();
        compacted.insert(key, message.payload().map(|value| serde_json::from_slice(value).unwrap()));
        remaining -= 1;
    }
    compacted
}

/// Republishes all accounts and waits until the events have been sent.
pub async fn republish(rig: &Rig) {
    let output = rig.run_command(&["republish", "Account"]);
    assert!(output.status.success(), "{output:?}");
    eventually("an empty outbox", async || rig.query_number("select count(*) from outbox").await == 0).await;
    assert_eq!(
        rig.query_number("select count(*) from outbox_republish").await,
        0,
        "the republish is complete"
    );
}

/// RULE-EVT-041, RULE-EVT-027: a republish corrects a value that a late event has overwritten,
/// tombstones included.
#[tokio::test]
async fn republish_corrects_a_late_value() {
    let rig = Rig::new().await;
    let _worker = rig.start_worker().await;
    for _ in 0..2 {
        rig.step().await;
    }
    let keys = rig.keys().await;
    // A late value, as a frozen relay sends it after its successor's events.
    let stale: FutureProducer = ClientConfig::new().set("bootstrap.servers", &rig.servers).create().unwrap();
    for key in &keys {
        let late = json!({"Key": key, "N": 1}).to_string();
        stale.send(FutureRecord::to(UPSERTED).key(key).payload(&late), BROKER_TIMEOUT).await.unwrap();
    }
    let close = format!("update account set closed = true where key = '{}'", keys[0]);
    rig.db.batch_execute(&close).await.unwrap();

    republish(&rig).await;

    let values = compacted(&rig);
    assert_eq!(values[&keys[0]], None, "a closed account has a tombstone");
    for key in &keys[1..] {
        assert_eq!(values[key], Some(json!({"Key": key, "N": 2})));
    }
    rig.wait_until_settled().await;
    assert_eq!(rig.miscounted_accounts().await, 0);
}

/// RULE-EVT-041: a republish continues after an interruption.
#[tokio::test]
async fn republish_continues_after_an_interruption() {
    let rig = Rig::new().await;
    let _worker = rig.start_worker().await;
    let keys = rig.keys().await;
    let so_far = format!("insert into outbox_republish values ('Account', '{}', 5)", keys[4]);
    rig.db.batch_execute(&so_far).await.unwrap();

    republish(&rig).await;

    assert!(compacted(&rig).keys().eq(&keys[5..]));
    republish(&rig).await;
    assert!(compacted(&rig).keys().eq(&keys));
    assert!(!rig.run_command(&["republish", "Nothing"]).status.success());
    assert!(!rig.run_command(&["republish", "Account", "--per-second", "0"]).status.success());
}

/// RULE-EVT-041: consumers accept the events of a restored database, whose ids other events have
/// had before.
#[tokio::test]
async fn events_of_a_restored_database_are_applied() {
    let rig = Rig::new().await;
    let _worker = rig.start_worker().await;
    for _ in 0..3 {
        rig.step().await;
    }
    rig.wait_until_applied(24).await;
    let back = "select setval(pg_get_serial_sequence('outbox', 'id'), 1)";
    rig.db.batch_execute(back).await.unwrap();
    assert!(rig.run_command(&["restored"]).status.success());
    rig.step().await;
    rig.expect_no_faults().await;
}
