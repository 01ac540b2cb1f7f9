//! Messages that cannot be taken: put aside, replayed, dropped.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use serde_json::Value;
use testkit::bus::Bus;

use crate::rig::{COUNTED, Rig, eventually, stream};

const DEAD: &str = "select count(*) from dead_letter";

/// What `dead-letters list` prints.
fn listed(rig: &Rig) -> Vec<Value> {
    let output = rig.operate(&["dead-letters", "list"]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn a_poison_key_holds_up_no_other_and_is_replayed_in_order() {
    let rig = Rig::new().await;
    let _worker = rig.work().await;
    rig.step().await;
    rig.applied(8).await;
    let poisoned = &rig.keys().await[0];
    rig.poison(poisoned, "reject").await;
    for _ in 0..4 {
        rig.step().await;
    }
    rig.settle().await;
    assert_eq!(rig.miscounted().await, 1, "only the poisoned one");
    let letters = listed(&rig);
    assert_eq!(letters.len(), 4);
    assert!(letters.iter().all(|letter| letter["key"] == **poisoned), "{letters:?}");
    assert_eq!(letters[0]["error"], "this key is poisoned");

    assert!(!rig.operate(&["dead-letters", "replay"]).status.success(), "it is poisoned still");
    assert_eq!(rig.number(DEAD).await, 4);

    rig.cure().await;
    // New ones arrive while the old ones are replayed.
    let writers = rig.start("serve", &[]).await;
    rig.committed(100).await;
    let replayed = rig.operate(&["dead-letters", "replay", "--key", poisoned]);
    assert!(replayed.status.success(), "{replayed:?}");
    assert!(writers.terminate().await.success());
    rig.clean().await;
}

#[tokio::test]
async fn a_discarded_message_lets_the_later_ones_through() {
    let rig = Rig::new().await;
    let _worker = rig.work().await;
    let poisoned = &rig.keys().await[0];
    rig.poison(poisoned, "reject").await;
    rig.step().await;
    rig.settle().await;
    rig.cure().await;
    rig.step().await;
    rig.settle().await;
    let ids: Vec<String> = listed(&rig).iter().map(|letter| letter["id"].to_string()).collect();
    assert_eq!(ids.len(), 2, "one behind the other");
    assert!(rig.operate(&["dead-letters", "discard", &ids[0], &ids[1]]).status.success());
    assert!(!rig.operate(&["dead-letters", "discard", &ids[0]]).status.success(), "it is gone");
    rig.step().await;
    rig.settle().await;
    let query = format!("select count(*) from applied where key = '{poisoned}' and n = 3");
    assert_eq!(rig.number(&query).await, 1);
    assert_eq!(rig.number(&format!("select count(*) from applied where key = '{poisoned}'")).await, 1);
    assert_eq!(rig.number("select count(*) from applied").await, 22);
    assert_eq!(rig.number(DEAD).await, 0);
}

#[tokio::test]
async fn a_handler_that_panics_has_its_message_put_aside() {
    let rig = Rig::new().await;
    let worker = rig.work().await;
    let poisoned = &rig.keys().await[0];
    rig.poison(poisoned, "panic").await;
    rig.step().await;
    rig.settle().await;
    assert_eq!(listed(&rig)[0]["error"], "the handler panicked");
    rig.cure().await;
    assert!(rig.operate(&["dead-letters", "replay"]).status.success());
    rig.step().await;
    rig.clean().await;
    assert!(worker.terminate().await.success(), "the same process");
}

#[tokio::test]
async fn a_message_that_has_to_wait_holds_up_its_partition_alone() {
    let rig = Rig::new().await;
    let _worker = rig.work().await;
    rig.step().await;
    rig.applied(8).await;
    eventually("the log", async || rig.log.count() == 8).await;
    let keys = rig.keys().await;
    let waiting = rig.log.partition(&stream(&keys[0]));
    rig.poison(&keys[0], "later").await;
    for _ in 0..3 {
        rig.step().await;
    }
    for key in keys.iter().filter(|key| rig.log.partition(&stream(key)) != waiting) {
        let applied = format!("select count(*) from applied where key = '{key}'");
        eventually("another partition", async || rig.number(&applied).await == 4).await;
    }
    let applied = format!("select count(*) from applied where key = '{}'", keys[0]);
    assert_eq!(rig.number(&applied).await, 1);
    rig.cure().await;
    rig.clean().await;
}

/// Sends what somebody else might.
async fn send(rig: &Rig, key: &str, headers: &[(&str, &[u8])], payload: Option<&[u8]>) {
    let producer: FutureProducer =
        ClientConfig::new().set("bootstrap.servers", &rig.servers).create().unwrap();
    let headers = headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
        headers.insert(Header { key, value: Some(*value) })
    });
    let mut record = FutureRecord::to(COUNTED).key(key).headers(headers);
    record.payload = payload;
    producer.send(record, Duration::from_secs(20)).await.unwrap();
}

#[tokio::test]
async fn whatever_a_message_has_in_it_is_put_aside_and_holds_up_no_other() {
    let rig = Rig::new().await;
    let _worker = rig.work().await;
    let large = vec![b'x'; 900_000];
    let long = "y".repeat(20_000);
    let bytes = &[0, 255, b'"', 0][..];
    send(&rig, "", &[("ce_id", &large)], Some(b"{}")).await;
    send(&rig, "", &[("ce_source", &large), ("ce_id", b"1")], Some(b"{}")).await;
    send(&rig, &long, &[("ce_type", bytes), ("ce_id", bytes), ("", bytes)], Some(bytes)).await;
    send(&rig, "", &[], Some(&large)).await;
    send(&rig, "tombstone", &[("ce_sequence", b"1")], None).await;
    eventually("all of them", async || rig.number(DEAD).await == 5).await;
    let letters = listed(&rig);
    let tombstone = letters.iter().find(|letter| letter["key"] == "tombstone").unwrap();
    assert_eq!(tombstone["error"], "a tombstone");
    // A reason that cannot be stored as it is.
    let key = &rig.keys().await[0];
    rig.poison(key, "nul").await;
    rig.step().await;
    eventually("the reason", async || rig.number(DEAD).await == 6).await;
    rig.applied(7).await;
    eventually("all copies", async || rig.number("select count(*) from outbox").await == 0).await;
    assert_eq!(rig.number("select count(*) from outbox_parked").await, 0, "copies that no broker takes");
}

#[tokio::test]
async fn the_copy_of_a_dead_letter_keeps_its_context_and_carries_the_reason() {
    let rig = Rig::new().await;
    let _worker = rig.work().await;
    let topic = format!("{COUNTED}.ledger.dlq");
    let bus = Bus::connect(&rig.servers, std::slice::from_ref(&topic)).unwrap();
    let context: [(&str, &[u8]); 4] =
        [("ce_id", b"1"), ("ce_source", b"/elsewhere"), ("ce_type", b"told"), ("ce_sequence", b"42")];
    send(&rig, "key", &context, Some(b"[]")).await;
    let copies = bus.events_until("key", &topic).await;
    let headers = &copies[0].headers;
    for (name, value) in context {
        assert_eq!(headers[name].as_bytes(), value, "{name}");
    }
    assert!(headers["dlq-reason"].starts_with("does not decode"), "{headers:?}");
    assert_eq!((&*headers["dlq-consumer"], &*headers["dlq-topic"]), ("ledger.ledger", COUNTED));
}
