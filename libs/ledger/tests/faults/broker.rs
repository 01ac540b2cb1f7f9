//! A broker that is away, slow, moved or unwilling.

use std::time::Duration;

use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::rig::{COUNTED, Rig};

/// A service under load, while `trouble` is made, and the verdict. The load is light: unlike Kafka, the
/// embedded broker would take a partition's second request after it has refused the first.
async fn endure(nodes: u32, trouble: impl AsyncFnOnce(&Rig)) {
    let rig = Rig::with_nodes(nodes).await;
    let service = rig.start("both", &[("LEDGER_WRITERS", "2"), ("LEDGER_PAUSE_MS", "20")]).await;
    rig.committed(50).await;
    trouble(&rig).await;
    let so_far = rig.number("select sum(n)::bigint from account").await;
    rig.committed(so_far + 50).await;
    assert!(service.terminate().await.success());
    let _worker = rig.work().await;
    rig.clean().await;
}

#[tokio::test]
async fn a_service_without_a_broker_goes_on_writing() {
    let rig = Rig::new().await;
    rig.cluster().broker_down(1).unwrap();
    let writers = rig.start("serve", &[]).await;
    rig.committed(100).await;
    assert!(writers.terminate().await.success());
    rig.cluster().broker_up(1).unwrap();
    let _worker = rig.work().await;
    rig.clean().await;
}

#[tokio::test]
async fn a_broker_that_was_away_gets_everything() {
    endure(1, async |rig| {
        rig.cluster().broker_down(1).unwrap();
        tokio::time::sleep(Duration::from_secs(15)).await;
        rig.cluster().broker_up(1).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_slow_broker_gets_everything() {
    endure(1, async |rig| {
        rig.cluster().broker_round_trip_time(1, Duration::from_millis(400)).unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        rig.cluster().broker_round_trip_time(1, Duration::ZERO).unwrap();
    })
    .await;
}

#[tokio::test]
async fn partitions_move_between_nodes() {
    endure(3, async |rig| {
        for round in 0..6 {
            for partition in 0..4 {
                let node = (round + partition) % 3 + 1;
                rig.cluster().partition_leader(COUNTED, partition, Some(node)).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn refused_requests_are_repeated() {
    use RDKafkaRespErr::{
        RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
    };
    endure(1, async |rig| {
        for _ in 0..10 {
            rig.cluster().request_errors(
                RDKafkaApiKey::Produce,
                &[
                    RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
                    RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
                    RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                ],
            );
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    })
    .await;
}
