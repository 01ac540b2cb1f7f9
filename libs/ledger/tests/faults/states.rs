//! Dead letters of a topic whose messages carry the whole state of their key.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use serde_json::{Value, json};

use crate::rig::{Rig, UPSERTED, eventually};

/// Sends a message of the topic of states.
async fn send(rig: &Rig, key: &str, sequence: i64, payload: &str) {
    let producer: FutureProducer =
        ClientConfig::new().set("bootstrap.servers", &rig.servers).create().unwrap();
    let sequence = sequence.to_string();
    let headers = OwnedHeaders::new().insert(Header { key: "ce_sequence", value: Some(&sequence) });
    let record = FutureRecord::to(UPSERTED).key(key).headers(headers).payload(payload);
    producer.send(record, Duration::from_secs(20)).await.unwrap();
}

/// Sends a state of an account.
pub async fn send_state(rig: &Rig, key: &str, sequence: i64, n: i64) {
    send(rig, key, sequence, &json!({"Key": key, "N": n}).to_string()).await;
}

pub async fn wait_until_stored(rig: &Rig, key: &str, n: i64) {
    let stored = format!("select count(*) from account_replica where key = '{key}' and n = {n}");
    eventually("the state", async || rig.query_number(&stored).await == 1).await;
}

/// RULE-EVT-046: a later state is applied although its key has dead letters, and supersedes them.
/// A superseded dead letter stays in the list, and no replay applies it.
#[tokio::test]
async fn later_state_supersedes_the_dead_letters_of_its_key() {
    let rig = Rig::new().await;
    let worker = rig.start_worker().await;
    let keys = rig.keys().await;
    let (poisoned, other) = (&keys[0], &keys[1]);
    for sequence in [1, 2] {
        send(&rig, poisoned, sequence, "[]").await;
        send_state(&rig, other, sequence, sequence).await;
    }
    let waiting = "select count(*) from dead_letter where superseded_by is null";
    eventually("two dead letters", async || rig.query_number(waiting).await == 2).await;
    wait_until_stored(&rig, other, 2).await;
    eventually("the metric", async || worker.metric("dead_letters").await >= 2.0).await;

    send_state(&rig, poisoned, 3, 3).await;
    wait_until_stored(&rig, poisoned, 3).await;
    assert_eq!(rig.query_number(waiting).await, 0);
    let superseded = async || worker.metric("consumer_dead_letters_superseded_total").await;
    eventually("the count of both", async || superseded().await >= 2.0).await;
    eventually("the metric", async || worker.metric("dead_letters").await < 1.0).await;

    let listed = rig.run_command(&["dead-letters", "list"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    let listed: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(listed.len(), 2, "{listed:?}");
    for letter in &listed {
        assert!(letter["error"].as_str().unwrap().starts_with("does not decode"), "{letter}");
        assert!(letter["superseded_by"].as_i64() > letter["offset"].as_i64(), "{letter}");
    }
    let replayed = rig.run_command(&["dead-letters", "replay"]);
    assert!(replayed.status.success() && replayed.stdout.is_empty(), "{replayed:?}");

    send_state(&rig, poisoned, 4, 4).await;
    wait_until_stored(&rig, poisoned, 4).await;
    assert!(rig.run_command(&["dead-letters", "discard", &listed[0]["id"].to_string()]).status.success());
}

/// RULE-EVT-046: a superseded dead letter is deleted after the retention of its copy, 30 days.
#[tokio::test]
async fn superseded_dead_letter_is_deleted_after_thirty_days() {
    let rig = Rig::new().await;
    let insert = "insert into dead_letter \
        (consumer, topic, partition, \"offset\", key, headers, error, dead_at, superseded_by) \
        select 'ledger.accounts', $1, 0, days, days::text, '{}', 'wrong', \
        clock_timestamp() - days * interval '1 day', superseded_by \
        from (values (29, 40), (31, 40), (31, null)) as letter (days, superseded_by)";
    rig.db.execute(insert, &[&UPSERTED]).await.unwrap();
    let _worker = rig.start_worker().await;
    let letters = "select count(*) from dead_letter";
    eventually("the deletion", async || rig.query_number(letters).await == 2).await;
    let expired = "select count(*) from dead_letter where superseded_by is not null and \"offset\" = 31";
    assert_eq!(rig.query_number(expired).await, 0);
}
