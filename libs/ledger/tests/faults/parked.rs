//! Events that cannot be sent as they are: parked, released, dropped.

use serde_json::Value;

use crate::replica::Replica;
use crate::rig::{BULK, GROUP_PROPERTIES, Rig, eventually};

const PARKED: &str = "select count(*) from outbox_parked";

/// A process that cannot send what is larger than 2000 bytes.
async fn narrow(rig: &Rig) -> Replica {
    let properties = format!("{GROUP_PROPERTIES},message.max.bytes=2000");
    rig.start("work", &[("KAFKA_PROPERTIES", &properties)]).await
}

/// What `parked list` prints: the id of the one event.
fn listed(rig: &Rig) -> String {
    let output = rig.operate(&["parked", "list"]);
    let event: Value = serde_json::from_slice(&output.stdout).unwrap();
    event["id"].to_string()
}

#[tokio::test]
async fn an_event_that_is_too_large_waits_with_its_key_until_it_is_released() {
    let rig = Rig::new().await;
    let worker = narrow(&rig).await;
    rig.step().await;
    let key = &rig.keys().await[0];
    rig.step_with(key, 5000).await;
    rig.step().await;
    rig.step().await;
    eventually("a parked event", async || rig.number(PARKED).await == 1).await;
    rig.applied(8 + 14).await;
    eventually("the rest", async || rig.number("select count(*) from outbox").await == 2).await;

    let id = listed(&rig);
    assert!(rig.operate(&["parked", "release", &id]).status.success());
    eventually("another refusal", async || worker.metric("outbox_refused_total").await >= 2.0).await;
    assert_eq!(rig.number("select count(*) from outbox").await, 2, "its key still waits");

    assert!(worker.terminate().await.success());
    let _worker = rig.work().await;
    assert!(rig.operate(&["parked", "release", &id]).status.success());
    rig.clean().await;
}

#[tokio::test]
async fn a_discarded_event_lets_the_later_ones_of_its_key_go() {
    let rig = Rig::new().await;
    let _worker = narrow(&rig).await;
    let key = &rig.keys().await[0];
    rig.step_with(key, 5000).await;
    rig.step().await;
    eventually("a parked event", async || rig.number(PARKED).await == 1).await;
    assert!(rig.operate(&["parked", "discard", &listed(&rig)]).status.success());
    rig.applied(8).await;
    // What is sent is taken before its row goes.
    eventually("the others have gone", async || rig.number("select count(*) from outbox").await == 0).await;
    assert_eq!(rig.number(&format!("select n from applied where key = '{key}'")).await, 2);
}

#[tokio::test]
async fn a_topic_that_is_missing_holds_up_no_other() {
    let rig = Rig::new().await;
    rig.broker.remove(BULK).await;
    rig.bulk(2).await;
    let _worker = rig.work().await;
    for steps in 1..=2 {
        rig.step().await;
        rig.applied(8 * steps).await;
    }
    eventually("the others", async || rig.number("select count(*) from outbox").await == 2).await;

    rig.broker.make_again(BULK).await;
    eventually("those that waited", async || rig.number("select count(*) from outbox").await == 0).await;
    assert_eq!(rig.number(PARKED).await, 0);
    assert_eq!(rig.verdict().await.repeated, 0, "nobody else's events are sent again and again");
}

#[tokio::test]
async fn a_batch_ends_at_four_megabytes() {
    let rig = Rig::new().await;
    // What a relay has sent together it deletes together.
    rig.db
        .batch_execute(
            "create table together (events bigint); \
             create function together() returns trigger language plpgsql as $$ begin \
             insert into ledger.together select count(*) from gone; return null; end $$; \
             create trigger together after delete on outbox referencing old table as gone \
             for each statement execute function together()",
        )
        .await
        .unwrap();
    rig.bulk_of(40, 900_000).await;
    let _worker = rig.work().await;
    eventually("the rest", async || rig.number("select count(*) from outbox").await == 0).await;
    assert_eq!(rig.number("select max(events) from together").await, 5, "of 900,000 bytes each");
}
