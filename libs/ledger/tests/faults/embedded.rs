//! Faults that only the embedded broker can inject. The lane with a real Kafka skips this file.

use std::time::Duration;

use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::broker::run_with_fault;
use crate::republish::republish;
use crate::rig::{BULK, COUNTED, Rig, UPSERTED, eventually, stream_of};

/// RULE-EVT-031: a broker that was down for 15 s receives all events.
#[tokio::test]
async fn broker_that_was_down_receives_all_events() {
    run_with_fault(1, async |rig| {
        rig.broker.kill(0).await;
        tokio::time::sleep(Duration::from_secs(15)).await;
        rig.broker.restart(0).await;
    })
    .await;
}

/// RULE-EVT-031: a broker that was slow for 5 s receives all events.
#[tokio::test]
async fn slow_broker_receives_all_events() {
    run_with_fault(1, async |rig| {
        rig.broker.embedded().broker_round_trip_time(1, Duration::from_millis(400)).unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        rig.broker.embedded().broker_round_trip_time(1, Duration::ZERO).unwrap();
    })
    .await;
}

/// RULE-EVT-030: a relay with unacknowledged messages lets its lease expire. If it released the
/// lease, the next relay could send later events before these are written.
#[tokio::test]
async fn relay_with_unacknowledged_messages_does_not_release_its_lease() {
    let rig = Rig::new().await;
    let worker = rig.start_worker().await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    let embedded = rig.broker.embedded();
    embedded.broker_round_trip_time(1, Duration::from_secs(10)).unwrap();
    rig.step().await;
    let (epoch, released) =
        (rig.epoch().await, "select count(*) from outbox_lease where expires_at = '-infinity'");
    let lock = rig.lock("outbox_lease").await;
    eventually("the end of the relay session", async || {
        worker.find_log_line("unacknowledged messages remained").is_some()
    })
    .await;
    lock.release().await;
    assert_eq!(rig.query_number(released).await, 0);
    embedded.broker_round_trip_time(1, Duration::ZERO).unwrap();
    eventually("the next relay session", async || rig.epoch().await > epoch).await;
    rig.wait_until_settled().await;
    assert_eq!(rig.miscounted_accounts().await, 0);
}

/// RULE-EVT-031: partitions that move between nodes receive all events.
#[tokio::test]
async fn moved_partitions_receive_all_events() {
    run_with_fault(3, async |rig| {
        for round in 0..6 {
            for partition in 0..4 {
                let node = (round + partition) % 3 + 1;
                rig.broker.embedded().partition_leader(COUNTED, partition, Some(node)).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    })
    .await;
}

/// RULE-EVT-031: a rejected request is sent again. The test appends one event at a time. Unlike
/// Kafka, the embedded broker accepts a second request of a partition after it has rejected the
/// first. The client would then treat the second acknowledgement as that of both requests.
#[tokio::test]
async fn rejected_request_is_sent_again() {
    use RDKafkaRespErr::{
        RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
    };
    let rig = Rig::new().await;
    let _worker = rig.start_worker().await;
    rig.step().await;
    for key in rig.keys().await {
        eventually("an empty outbox", async || rig.query_number("select count(*) from outbox").await == 0)
            .await;
        rig.broker.embedded().request_errors(
            RDKafkaApiKey::Produce,
            &[
                RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
                RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
                RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            ],
        );
        rig.step_with(&key, 0).await;
    }
    rig.expect_no_faults().await;
}

/// RULE-EVT-040: an event that the broker rejects in five consecutive relay sessions is parked.
#[tokio::test]
async fn event_rejected_in_five_relay_sessions_is_parked() {
    let rig = Rig::new().await;
    let worker = rig.start_worker().await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    eventually("an empty outbox", async || rig.query_number("select count(*) from outbox").await == 0).await;
    let rejections = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_POLICY_VIOLATION; 5];
    rig.broker.embedded().request_errors(RDKafkaApiKey::Produce, &rejections);
    let epoch = rig.epoch().await;
    rig.step_with(&rig.keys().await[0], 0).await;
    eventually("a parked event", async || rig.query_number("select count(*) from outbox_parked").await == 1)
        .await;
    assert_eq!(rig.epoch().await, epoch + 4, "each rejection but the last ends a session");
    let id = rig.query_number("select id from outbox_parked").await.to_string();
    assert!(rig.run_command(&["parked", "release", &id]).status.success());
    rig.step().await;
    rig.expect_no_faults().await;
    drop(worker);
}

/// RULE-EVT-040: events of a topic to which the service may not write wait for the permission, and
/// none is parked.
#[tokio::test]
async fn events_of_a_forbidden_topic_wait_for_the_permission() {
    let rig = Rig::new().await;
    let worker = rig.start_worker().await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    eventually("an empty outbox", async || rig.query_number("select count(*) from outbox").await == 0).await;
    let rejections = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED; 6];
    rig.broker.embedded().request_errors(RDKafkaApiKey::Produce, &rejections);
    rig.step().await;
    eventually("a held topic", async || worker.metric("outbox_held_topics").await > 0.0).await;
    assert_eq!(rig.query_number("select count(*) from outbox_parked").await, 0, "parked events");
    rig.wait_until_applied(16).await;
    eventually("no held topic", async || worker.metric("outbox_held_topics").await == 0.0).await;
    assert_eq!(rig.query_number("select count(*) from outbox_parked").await, 0, "parked events");
    assert!(worker.metric("outbox_takeovers_total").await < 2.0, "the relay session continues");
    rig.expect_no_faults().await;
}

/// RULE-EVT-031: a partition without a leader blocks no other. Unlike Kafka, the embedded broker
/// elects no new leader when a node is down.
#[tokio::test]
async fn partition_without_a_leader_blocks_no_other() {
    let rig = Rig::with_nodes(3).await;
    let _worker = rig.start_worker().await;
    rig.step().await;
    eventually("the log", async || rig.log.count() == 8).await;
    let keys = rig.keys().await;
    let partition = |key: &String| rig.log.partition(&stream_of(key)).unwrap();
    let alone = partition(&keys[0]);
    for partition in 0..4 {
        let node = if partition == alone { 3 } else { 1 };
        rig.broker.embedded().partition_leader(COUNTED, partition, Some(node)).unwrap();
        rig.broker.embedded().partition_leader(BULK, partition, Some(1)).unwrap();
    }
    rig.step().await;
    eventually("an empty outbox", async || rig.query_number("select count(*) from outbox").await == 0).await;
    rig.broker.kill(2).await;
    for _ in 0..3 {
        rig.step().await;
    }
    let waiting = keys.iter().filter(|key| partition(key) == alone).count();
    let waiting = i64::try_from(waiting).unwrap() * 3;
    let pending = "select count(*) from outbox";
    eventually("the events of the other partitions", async || rig.query_number(pending).await == waiting)
        .await;
    // More than a full batch of late events. Another topic continues behind these events.
    for _ in 0..600 {
        rig.step_with(&keys[0], 0).await;
    }
    rig.append_bulk(1000).await;
    eventually("the events of another topic", async || rig.query_number(pending).await == waiting + 600)
        .await;
    rig.broker.restart(2).await;
    rig.expect_no_faults().await;
}

/// RULE-EVT-048: the command `restored` reads topics while a node that leads none of their
/// partitions is down.
#[tokio::test]
async fn restored_reads_topics_while_another_node_is_down() {
    let rig = Rig::with_nodes(2).await;
    let worker = rig.start_worker().await;
    rig.step().await;
    republish(&rig).await;
    assert!(worker.terminate().await.success());
    for partition in 0..4 {
        rig.broker.embedded().partition_leader(UPSERTED, partition, Some(1)).unwrap();
    }
    rig.broker.kill(1).await;
    // librdkafka connects to the nodes in a random order.
    for _ in 0..5 {
        let output = rig.run_command(&["restored", "--since", "2020-01-01T00:00:00Z", "--dry-run"]);
        assert!(output.status.success(), "{output:?}");
    }
}

/// RULE-EVT-040: later events of the key of a parked event wait, also those in batches that were in
/// flight when the broker rejected the event.
#[tokio::test]
async fn later_events_of_a_rejected_event_wait_in_every_batch() {
    let rig = Rig::new().await;
    let _worker = rig.start_worker().await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    eventually("an empty outbox", async || rig.query_number("select count(*) from outbox").await == 0).await;
    rig.broker.embedded().broker_round_trip_time(1, Duration::from_millis(400)).unwrap();
    let rejection = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE];
    rig.broker.embedded().request_errors(RDKafkaApiKey::Produce, &rejection);
    // Each of a thousand keys has three events, which are a thousand events apart.
    rig.append_bulk(3000).await;

    let waiting = format!(
        "select count(distinct key) * 3 - count(*) from outbox_parked where topic = '{BULK}' having count(*) > 0"
    );
    let parked = format!("select count(*) from outbox_parked where topic = '{BULK}'");
    eventually("a rejection", async || rig.query_number(&parked).await > 0).await;
    eventually("only the later events of the parked keys in the outbox", async || {
        rig.query_number("select count(*) from outbox").await == rig.query_number(&waiting).await
    })
    .await;
    let others = "select count(*) from outbox where key not in (select key from outbox_parked)";
    assert_eq!(rig.query_number(others).await, 0);
}

/// RULE-EVT-029: a relay that is killed before the acknowledgement loses no event. Its successor
/// sends the events again.
#[tokio::test]
async fn relay_killed_before_the_acknowledgement_loses_no_event() {
    let rig = Rig::new().await;
    let worker = rig.start_worker().await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    eventually("an empty outbox", async || rig.query_number("select count(*) from outbox").await == 0).await;
    // The broker writes the events and acknowledges them too late.
    rig.broker.freeze(0).await;
    rig.step().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    worker.kill();
    rig.broker.thaw(0).await;
    assert_eq!(rig.query_number("select count(*) from outbox").await, 8);
    eventually("the events of both steps", async || rig.log.count() == 16).await;
    let _worker = rig.start_worker().await;
    let verdict = rig.expect_no_faults().await;
    assert_eq!(verdict.repeated, 8);
}
