//! Events that the broker rejects: parked, released, discarded.

use serde_json::Value;

use crate::replica::Replica;
use crate::rig::{BULK, GROUP_PROPERTIES, Rig, eventually};

const PARKED: &str = "select count(*) from outbox_parked";

/// Starts a worker that cannot send events above 2000 bytes.
async fn start_limited_worker(rig: &Rig) -> Replica {
    let properties = format!("{GROUP_PROPERTIES},message.max.bytes=2000");
    rig.start("work", &[("KAFKA_PROPERTIES", &properties)]).await
}

/// Returns the id of the only event in the output of `parked list`.
fn parked_id(rig: &Rig) -> String {
    let output = rig.run_command(&["parked", "list"]);
    let event: Value = serde_json::from_slice(&output.stdout).unwrap();
    event["id"].to_string()
}

/// RULE-EVT-040: an event that is too large is parked, blocks no other key, and is released in
/// order.
#[tokio::test]
async fn oversized_event_is_parked_until_it_is_released() {
    let rig = Rig::new().await;
    let worker = start_limited_worker(&rig).await;
    rig.step().await;
    let key = &rig.keys().await[0];
    rig.step_with(key, 5000).await;
    rig.step().await;
    rig.step().await;
    eventually("a parked event", async || rig.query_number(PARKED).await == 1).await;
    rig.wait_until_applied(8 + 14).await;
    eventually("the delivery of all other events", async || {
        rig.query_number("select count(*) from outbox").await == 2
    })
    .await;

    let id = parked_id(&rig);
    assert!(rig.run_command(&["parked", "release", &id]).status.success());
    eventually("another rejection", async || worker.metric("outbox_refused_total").await >= 2.0).await;
    assert_eq!(rig.query_number("select count(*) from outbox").await, 2, "the key still waits");

    assert!(worker.terminate().await.success());
    let _worker = rig.start_worker().await;
    assert!(rig.run_command(&["parked", "release", &id]).status.success());
    rig.expect_no_faults().await;
}

/// RULE-EVT-040: a discarded parked event unblocks its key.
#[tokio::test]
async fn discarded_parked_event_unblocks_its_key() {
    let rig = Rig::new().await;
    let _worker = start_limited_worker(&rig).await;
    let key = &rig.keys().await[0];
    rig.step_with(key, 5000).await;
    rig.step().await;
    eventually("a parked event", async || rig.query_number(PARKED).await == 1).await;
    assert!(rig.run_command(&["parked", "discard", &parked_id(&rig)]).status.success());
    rig.wait_until_applied(8).await;
    // An event is applied before its row is deleted.
    eventually("an empty outbox", async || rig.query_number("select count(*) from outbox").await == 0).await;
    assert_eq!(rig.query_number(&format!("select n from applied where key = '{key}'")).await, 2);
}

/// RULE-EVT-040: all parked events of a topic, or of all topics, are released by one command.
#[tokio::test]
async fn parked_events_are_released_by_topic_or_together() {
    let rig = Rig::new().await;
    let worker = start_limited_worker(&rig).await;
    rig.step_with("%", 5000).await;
    rig.append_sized_bulk(3, 5000).await;
    eventually("the parked events", async || rig.query_number(PARKED).await == 11).await;
    assert!(worker.terminate().await.success());
    let outcome = rig.run_command(&["parked", "release", "1", "--all"]);
    assert!(!outcome.status.success(), "ids and --all exclude each other");
    assert!(rig.run_command(&["parked", "release", "--topic", BULK]).status.success());
    assert_eq!(rig.query_number(PARKED).await, 8);
    assert!(rig.run_command(&["parked", "release", "--all"]).status.success());
    assert_eq!(rig.query_number(PARKED).await, 0);
    let _worker = rig.start_worker().await;
    rig.expect_no_faults().await;
}

/// RULE-EVT-040: an event whose topic is missing waits, and blocks no other topic.
#[tokio::test]
async fn missing_topic_blocks_no_other() {
    let rig = Rig::new().await;
    rig.broker.remove_topic(BULK).await;
    rig.append_bulk(2).await;
    let _worker = rig.start_worker().await;
    for steps in 1..=2 {
        rig.step().await;
        rig.wait_until_applied(8 * steps).await;
    }
    eventually("the delivery of all other events", async || {
        rig.query_number("select count(*) from outbox").await == 2
    })
    .await;

    rig.broker.restore_topic(BULK).await;
    eventually("the delivery of the waiting events", async || {
        rig.query_number("select count(*) from outbox").await == 0
    })
    .await;
    assert_eq!(rig.query_number(PARKED).await, 0);
    assert_eq!(rig.verdict().await.repeated, 0, "events of other topics are not repeated");
}

/// RULE-EVT-042: a batch ends with the event with which it reaches 4 MiB.
#[tokio::test]
async fn batch_ends_with_the_event_that_reaches_four_mebibytes() {
    let rig = Rig::new().await;
    // A relay deletes the rows of a batch in one statement, so the trigger records the number of
    // events of each batch.
    rig.db
        .batch_execute(
            "create table deleted_batch (events bigint); \
             create function record_batch() returns trigger language plpgsql as $$ begin \
             insert into ledger.deleted_batch select count(*) from deleted; return null; end $$; \
             create trigger record_batch after delete on outbox referencing old table as deleted \
             for each statement execute function record_batch()",
        )
        .await
        .unwrap();
    rig.append_sized_bulk(40, 900_000).await;
    let _worker = rig.start_worker().await;
    eventually("an empty outbox", async || rig.query_number("select count(*) from outbox").await == 0).await;
    assert_eq!(
        rig.query_number("select max(events) from deleted_batch").await,
        5,
        "events of 900,000 bytes in a batch"
    );
}
