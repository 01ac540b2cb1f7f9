//! What only the embedded broker does at a command. The run with a real Kafka leaves this file out.

use std::time::Duration;

use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::broker::endure;
use crate::rig::{BULK, COUNTED, Rig, eventually, stream};

#[tokio::test]
async fn a_broker_that_was_away_gets_everything() {
    endure(1, async |rig| {
        rig.broker.kill(0).await;
        tokio::time::sleep(Duration::from_secs(15)).await;
        rig.broker.restart(0).await;
    })
    .await;
}

#[tokio::test]
async fn a_slow_broker_gets_everything() {
    endure(1, async |rig| {
        rig.broker.embedded().broker_round_trip_time(1, Duration::from_millis(400)).unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        rig.broker.embedded().broker_round_trip_time(1, Duration::ZERO).unwrap();
    })
    .await;
}

/// Released at once, it would let the next relay send what comes after before what this one has sent is written.
#[tokio::test]
async fn a_relay_to_which_the_broker_owes_answers_does_not_release_its_lease() {
    let rig = Rig::new().await;
    let worker = rig.work().await;
    rig.step().await;
    rig.applied(8).await;
    let embedded = rig.broker.embedded();
    embedded.broker_round_trip_time(1, Duration::from_secs(10)).unwrap();
    rig.step().await;
    let (epoch, released) =
        (rig.epoch().await, "select count(*) from outbox_lease where expires_at = '-infinity'");
    let lock = rig.lock("outbox_lease").await;
    eventually("the end of its tenure", async || worker.logged("unacknowledged messages remained").is_some())
        .await;
    lock.release().await;
    assert_eq!(rig.number(released).await, 0);
    embedded.broker_round_trip_time(1, Duration::ZERO).unwrap();
    eventually("the next tenure", async || rig.epoch().await > epoch).await;
    rig.settle().await;
    assert_eq!(rig.miscounted().await, 0);
}

#[tokio::test]
async fn partitions_move_between_nodes() {
    endure(3, async |rig| {
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

/// One at a time: the embedded broker takes a partition's second request after it has refused the first, as Kafka does
/// not, and the client takes the second's acknowledgement for both.
#[tokio::test]
async fn refused_requests_are_repeated() {
    use RDKafkaRespErr::{
        RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
    };
    let rig = Rig::new().await;
    let _worker = rig.work().await;
    rig.step().await;
    for key in rig.keys().await {
        eventually("the deletion", async || rig.number("select count(*) from outbox").await == 0).await;
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
    rig.clean().await;
}

#[tokio::test]
async fn an_event_that_is_refused_in_tenure_after_tenure_is_parked() {
    let rig = Rig::new().await;
    let worker = rig.work().await;
    rig.step().await;
    rig.applied(8).await;
    eventually("the deletion", async || rig.number("select count(*) from outbox").await == 0).await;
    let refusals = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_POLICY_VIOLATION; 5];
    rig.broker.embedded().request_errors(RDKafkaApiKey::Produce, &refusals);
    let epoch = rig.epoch().await;
    rig.step_with(&rig.keys().await[0], 0).await;
    eventually("a parked event", async || rig.number("select count(*) from outbox_parked").await == 1).await;
    assert_eq!(rig.epoch().await, epoch + 4, "each time but the last has ended a tenure");
    let id = rig.number("select id from outbox_parked").await.to_string();
    assert!(rig.operate(&["parked", "release", &id]).status.success());
    rig.step().await;
    rig.clean().await;
    drop(worker);
}

/// Unlike Kafka, the embedded broker elects nobody when a node is gone.
#[tokio::test]
async fn a_partition_whose_leader_is_away_holds_up_no_other() {
    let rig = Rig::with_nodes(3).await;
    let _worker = rig.work().await;
    rig.step().await;
    eventually("the log", async || rig.log.count() == 8).await;
    let keys = rig.keys().await;
    let partition = |key: &String| rig.log.partition(&stream(key)).unwrap();
    let alone = partition(&keys[0]);
    for partition in 0..4 {
        let node = if partition == alone { 3 } else { 1 };
        rig.broker.embedded().partition_leader(COUNTED, partition, Some(node)).unwrap();
        rig.broker.embedded().partition_leader(BULK, partition, Some(1)).unwrap();
    }
    rig.step().await;
    eventually("the deletion", async || rig.number("select count(*) from outbox").await == 0).await;
    rig.broker.kill(2).await;
    for _ in 0..3 {
        rig.step().await;
    }
    let waiting = keys.iter().filter(|key| partition(key) == alone).count();
    let waiting = i64::try_from(waiting).unwrap() * 3;
    let left = "select count(*) from outbox";
    eventually("the other partitions", async || rig.number(left).await == waiting).await;
    // More than is held in memory for it, behind which another topic goes on.
    for _ in 0..600 {
        rig.step_with(&keys[0], 0).await;
    }
    rig.bulk(1000).await;
    eventually("another topic", async || rig.number(left).await == waiting + 600).await;
    rig.broker.restart(2).await;
    rig.clean().await;
}

/// Of a backlog several batches are under way when the broker refuses what was in the first.
#[tokio::test]
async fn behind_what_the_broker_refuses_its_key_waits_in_every_batch() {
    let rig = Rig::new().await;
    let _worker = rig.work().await;
    rig.step().await;
    rig.applied(8).await;
    eventually("the deletion", async || rig.number("select count(*) from outbox").await == 0).await;
    rig.broker.embedded().broker_round_trip_time(1, Duration::from_millis(400)).unwrap();
    let refusal = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE];
    rig.broker.embedded().request_errors(RDKafkaApiKey::Produce, &refusal);
    // Three events of each key, a thousand keys apart.
    rig.bulk(3000).await;

    let waiting = format!(
        "select count(distinct key) * 3 - count(*) from outbox_parked where topic = '{BULK}' having count(*) > 0"
    );
    let parked = format!("select count(*) from outbox_parked where topic = '{BULK}'");
    eventually("a refusal", async || rig.number(&parked).await > 0).await;
    eventually("the later events of its keys, and no others", async || {
        rig.number("select count(*) from outbox").await == rig.number(&waiting).await
    })
    .await;
    let others = "select count(*) from outbox where key not in (select key from outbox_parked)";
    assert_eq!(rig.number(others).await, 0);
}

#[tokio::test]
async fn killed_before_the_acknowledgement_an_event_is_sent_again() {
    let rig = Rig::new().await;
    let worker = rig.work().await;
    rig.step().await;
    rig.applied(8).await;
    eventually("the deletion", async || rig.number("select count(*) from outbox").await == 0).await;
    // It writes what it is sent, and says so too late.
    rig.broker.freeze(0).await;
    rig.step().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    worker.kill();
    rig.broker.thaw(0).await;
    assert_eq!(rig.number("select count(*) from outbox").await, 8);
    rig.read_all().await;
    assert_eq!(rig.log.count(), 16, "it is in the log");
    let _worker = rig.work().await;
    let verdict = rig.clean().await;
    assert_eq!(verdict.repeated, 8);
}
