//! Messages that a consumer cannot apply: dead-lettered, replayed, discarded.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use serde_json::Value;
use testkit::bus::Bus;

use crate::rig::{COUNTED, Rig, eventually, stream_of};

const DEAD_LETTERS: &str = "select count(*) from dead_letter";

/// Returns the output of `dead-letters list`.
fn list_dead_letters(rig: &Rig) -> Vec<Value> {
    let output = rig.run_command(&["dead-letters", "list"]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// RULE-EVT-036: a dead letter blocks no other key and is replayed in order.
#[tokio::test]
async fn poisoned_key_blocks_no_other_and_is_replayed_in_order() {
    let rig = Rig::new().await;
    let _worker = rig.start_worker().await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    let poisoned = &rig.keys().await[0];
    rig.poison(poisoned, "reject").await;
    for _ in 0..4 {
        rig.step().await;
    }
    rig.wait_until_settled().await;
    assert_eq!(rig.miscounted_accounts().await, 1, "only the poisoned account");
    let letters = list_dead_letters(&rig);
    assert_eq!(letters.len(), 4);
    assert!(letters.iter().all(|letter| letter["key"] == **poisoned), "{letters:?}");
    assert_eq!(letters[0]["error"], "this key is poisoned");

    assert!(!rig.run_command(&["dead-letters", "replay"]).status.success(), "the key is still poisoned");
    assert_eq!(rig.query_number(DEAD_LETTERS).await, 4);

    rig.remove_poison().await;
    // New messages arrive during the replay.
    let writers = rig.start("serve", &[]).await;
    rig.wait_until_committed(100).await;
    let replayed = rig.run_command(&["dead-letters", "replay", "--key", poisoned]);
    assert!(replayed.status.success(), "{replayed:?}");
    assert!(writers.terminate().await.success());
    rig.expect_no_faults().await;
}

/// RULE-EVT-036: a discarded dead letter unblocks its key.
#[tokio::test]
async fn discarded_dead_letter_unblocks_its_key() {
    let rig = Rig::new().await;
    let _worker = rig.start_worker().await;
    let poisoned = &rig.keys().await[0];
    rig.poison(poisoned, "reject").await;
    rig.step().await;
    rig.wait_until_settled().await;
    rig.remove_poison().await;
    rig.step().await;
    rig.wait_until_settled().await;
    let ids: Vec<String> = list_dead_letters(&rig).iter().map(|letter| letter["id"].to_string()).collect();
    assert_eq!(ids.len(), 2, "the second message waits behind the first");
    assert!(rig.run_command(&["dead-letters", "discard", &ids[0], &ids[1]]).status.success());
    assert!(
        !rig.run_command(&["dead-letters", "discard", &ids[0]]).status.success(),
        "the dead letter no longer exists"
    );
    rig.step().await;
    rig.wait_until_settled().await;
    let query = format!("select count(*) from applied where key = '{poisoned}' and n = 3");
    assert_eq!(rig.query_number(&query).await, 1);
    assert_eq!(rig.query_number(&format!("select count(*) from applied where key = '{poisoned}'")).await, 1);
    assert_eq!(rig.query_number("select count(*) from applied").await, 22);
    assert_eq!(rig.query_number(DEAD_LETTERS).await, 0);
}

/// RULE-EVT-036: a discard locks the keys before the dead letters, as a consumer does. In the
/// reverse order, the two could deadlock.
#[tokio::test]
async fn discard_locks_the_key_before_its_dead_letter() {
    let rig = Rig::new().await;
    let worker = rig.start_worker().await;
    let poisoned = &rig.keys().await[0];
    rig.poison(poisoned, "reject").await;
    rig.step().await;
    rig.wait_until_settled().await;
    drop(worker);
    let ids: Vec<String> = list_dead_letters(&rig).iter().map(|letter| letter["id"].to_string()).collect();
    let consumer = rig.begin().await;
    consumer.execute(&format!("select from inbox where key = '{poisoned}' for update")).await;

    let mut discard = rig.command();
    let mut discard = discard.args(["dead-letters", "discard", &ids[0]]).spawn().unwrap();
    rig.wait_until_blocked(1, "update %inbox%").await;
    consumer.execute(&format!("select from dead_letter where id = {} for update nowait", ids[0])).await;
    consumer.release().await;

    assert!(discard.wait().unwrap().success());
    assert_eq!(rig.query_number(DEAD_LETTERS).await, 0);
}

/// RULE-EVT-036: a message whose handler panics becomes a dead letter, and the process continues.
#[tokio::test]
async fn message_of_a_panicking_handler_is_dead_lettered() {
    let rig = Rig::new().await;
    let worker = rig.start_worker().await;
    let poisoned = &rig.keys().await[0];
    rig.poison(poisoned, "panic").await;
    rig.step().await;
    rig.wait_until_settled().await;
    assert_eq!(list_dead_letters(&rig)[0]["error"], "the handler panicked");
    rig.remove_poison().await;
    assert!(rig.run_command(&["dead-letters", "replay"]).status.success());
    rig.step().await;
    rig.expect_no_faults().await;
    assert!(worker.terminate().await.success(), "the process has continued");
}

/// RULE-EVT-036: a message that is retried blocks no other partition.
#[tokio::test]
async fn retried_message_blocks_only_its_partition() {
    let rig = Rig::new().await;
    let _worker = rig.start_worker().await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    eventually("all events in the log", async || rig.log.count() == 8).await;
    let keys = rig.keys().await;
    let waiting = rig.log.partition(&stream_of(&keys[0]));
    rig.poison(&keys[0], "later").await;
    for _ in 0..3 {
        rig.step().await;
    }
    for key in keys.iter().filter(|key| rig.log.partition(&stream_of(key)) != waiting) {
        let applied = format!("select count(*) from applied where key = '{key}'");
        eventually("the events of another partition", async || rig.query_number(&applied).await == 4).await;
    }
    let applied = format!("select count(*) from applied where key = '{}'", keys[0]);
    assert_eq!(rig.query_number(&applied).await, 1);
    rig.remove_poison().await;
    rig.expect_no_faults().await;
}

/// Sends a message with any headers and any payload.
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

/// RULE-EVT-036: every message can become a dead letter. Its key, headers, payload and reason may
/// have any content.
#[tokio::test]
async fn any_message_can_become_a_dead_letter() {
    let rig = Rig::new().await;
    let _worker = rig.start_worker().await;
    let large = vec![b'x'; 900_000];
    let long = "y".repeat(20_000);
    let bytes = &[0, 255, b'"', 0][..];
    send(&rig, "", &[("ce_id", &large)], Some(b"{}")).await;
    send(&rig, "", &[("ce_source", &large), ("ce_id", b"1")], Some(b"{}")).await;
    send(&rig, &long, &[("ce_type", bytes), ("ce_id", bytes), ("", bytes)], Some(bytes)).await;
    send(&rig, "", &[], Some(&large)).await;
    send(&rig, "tombstone", &[("ce_sequence", b"1")], None).await;
    eventually("five dead letters", async || rig.query_number(DEAD_LETTERS).await == 5).await;
    let letters = list_dead_letters(&rig);
    let tombstone = letters.iter().find(|letter| letter["key"] == "tombstone").unwrap();
    assert_eq!(tombstone["error"], "a tombstone");
    // PostgreSQL cannot store this reason unchanged.
    let key = &rig.keys().await[0];
    rig.poison(key, "nul").await;
    rig.step().await;
    eventually("the sixth dead letter", async || rig.query_number(DEAD_LETTERS).await == 6).await;
    rig.wait_until_applied(7).await;
    eventually("the copies", async || rig.query_number("select count(*) from outbox").await == 0).await;
    assert_eq!(
        rig.query_number("select count(*) from outbox_parked").await,
        0,
        "copies that the broker rejects"
    );
}

/// RULE-EVT-036: the copy of a dead letter keeps the context and has the reason.
#[tokio::test]
async fn copy_of_a_dead_letter_has_its_context_and_the_reason() {
    let rig = Rig::new().await;
    let _worker = rig.start_worker().await;
    let topic = format!("{COUNTED}.ledger.dlq");
    let bus = Bus::connect(&rig.servers, std::slice::from_ref(&topic)).unwrap();
    let context: [(&str, &[u8]); 4] =
        [("ce_id", b"1"), ("ce_source", b"/elsewhere"), ("ce_type", b"counted"), ("ce_sequence", b"42")];
    send(&rig, "key", &context, Some(b"[]")).await;
    let copies = bus.events_until("key", &topic).await;
    let headers = &copies[0].headers;
    for (name, value) in context {
        assert_eq!(headers[name].as_bytes(), value, "{name}");
    }
    assert!(headers["dlq-reason"].starts_with("does not decode"), "{headers:?}");
    assert_eq!((&*headers["dlq-consumer"], &*headers["dlq-topic"]), ("ledger.ledger", COUNTED));
}

/// RULE-EVT-036: the list is read in pages, and has no payloads unless they are requested.
#[tokio::test]
async fn list_has_all_pages_and_payloads_only_on_request() {
    const LETTERS: i32 = 1_203;
    let rig = Rig::new().await;
    let insert = "insert into dead_letter (consumer, topic, partition, \"offset\", key, headers, payload, error) \
        select 'ledger.ledger', $1, 0, n, n::text, '{}', convert_to('payload ' || n, 'UTF8'), 'wrong' \
        from generate_series(1, $2) n";
    rig.db.execute(insert, &[&COUNTED, &LETTERS]).await.unwrap();
    let letters = list_dead_letters(&rig);
    let offsets: Vec<_> = letters.iter().map(|letter| letter["offset"].as_i64().unwrap()).collect();
    assert!(offsets.into_iter().eq(1..=i64::from(LETTERS)), "each letter once, oldest first");
    assert!(letters.iter().all(|letter| letter.get("payload").is_none()));
    let output = rig.run_command(&["dead-letters", "list", "--payload", "--topic", COUNTED]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), usize::try_from(LETTERS).unwrap());
    assert!(text.lines().last().unwrap().contains("\"payload\":\"payload 1203\""));
}
