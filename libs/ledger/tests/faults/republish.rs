//! Telling anew: what a compacted topic keeps is right again, and a database that went back is believed again.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::rig::{Rig, UPSERTED, eventually};

const PATIENCE: Duration = Duration::from_secs(10);

/// What compaction leaves of the accounts' topic: the last value of each key.
fn kept(rig: &Rig) -> BTreeMap<String, Option<Value>> {
    let mut client = ClientConfig::new();
    client
        .set("bootstrap.servers", &rig.servers)
        .set("group.id", "reader")
        .set("enable.auto.commit", "false");
    let reader: BaseConsumer = client.create().unwrap();
    let mut list = TopicPartitionList::new();
    let mut left = 0;
    for partition in 0..4 {
        list.add_partition_offset(UPSERTED, partition, Offset::Beginning).unwrap();
        left += reader.fetch_watermarks(UPSERTED, partition, PATIENCE).unwrap().1;
    }
    reader.assign(&list).unwrap();
    let mut kept = BTreeMap::new();
    while left > 0 {
        let message = reader.poll(PATIENCE).unwrap().unwrap();
        let key = String::from_utf8(message.key().unwrap().to_vec()).unwrap();
        kept.insert(key, message.payload().map(|value| serde_json::from_slice(value).unwrap()));
        left -= 1;
    }
    kept
}

/// Has all accounts told anew, and waits until that was sent.
async fn republish(rig: &Rig) {
    let told = rig.operate(&["republish", "Account"]);
    assert!(told.status.success(), "{told:?}");
    eventually("what was told", async || rig.number("select count(*) from outbox").await == 0).await;
    assert_eq!(rig.number("select count(*) from outbox_republish").await, 0, "it is at its end");
}

#[tokio::test]
async fn what_a_late_value_has_overwritten_is_told_anew() {
    let rig = Rig::new().await;
    let _worker = rig.work().await;
    for _ in 0..2 {
        rig.step().await;
    }
    let keys = rig.keys().await;
    // As a relay that was frozen would: behind what its successor has sent.
    let stale: FutureProducer = ClientConfig::new().set("bootstrap.servers", &rig.servers).create().unwrap();
    for key in &keys {
        let late = json!({"Key": key, "N": 1}).to_string();
        stale.send(FutureRecord::to(UPSERTED).key(key).payload(&late), PATIENCE).await.unwrap();
    }
    let close = format!("update account set closed = true where key = '{}'", keys[0]);
    rig.db.batch_execute(&close).await.unwrap();

    republish(&rig).await;

    let kept = kept(&rig);
    assert_eq!(kept[&keys[0]], None, "nothing is left of it");
    for key in &keys[1..] {
        assert_eq!(kept[key], Some(json!({"Key": key, "N": 2})));
    }
    rig.settle().await;
    assert_eq!(rig.miscounted().await, 0);
}

#[tokio::test]
async fn telling_anew_goes_on_where_it_was_interrupted() {
    let rig = Rig::new().await;
    let _worker = rig.work().await;
    let keys = rig.keys().await;
    let so_far = format!("insert into outbox_republish values ('Account', '{}', 5)", keys[4]);
    rig.db.batch_execute(&so_far).await.unwrap();

    republish(&rig).await;

    assert!(kept(&rig).keys().eq(&keys[5..]));
    republish(&rig).await;
    assert!(kept(&rig).keys().eq(&keys));
    assert!(!rig.operate(&["republish", "Nothing"]).status.success());
}

/// What its counter gives out, consumers have seen of other events.
#[tokio::test]
async fn the_events_of_a_restored_database_are_news_to_consumers() {
    let rig = Rig::new().await;
    let _worker = rig.work().await;
    for _ in 0..3 {
        rig.step().await;
    }
    rig.applied(24).await;
    let back = "select setval(pg_get_serial_sequence('outbox', 'id'), 1)";
    rig.db.batch_execute(back).await.unwrap();
    assert!(rig.operate(&["restored"]).status.success());
    rig.step().await;
    rig.clean().await;
}
