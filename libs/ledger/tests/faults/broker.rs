//! A broker that is away, or does not answer.

use std::time::Duration;

use crate::rig::{COUNTED, Rig, eventually, stream};

/// A service under load, while `trouble` is made, and the verdict. The load is light: unlike Kafka, the
/// embedded broker would take a partition's second request after it has refused the first.
pub async fn endure(nodes: u16, trouble: impl AsyncFnOnce(&Rig)) {
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
    rig.broker.kill(0).await;
    let writers = rig.start("serve", &[]).await;
    rig.committed(100).await;
    assert!(writers.terminate().await.success());
    rig.broker.restart(0).await;
    let _worker = rig.work().await;
    rig.clean().await;
}

/// Health: ready is who reaches the database, and the broker if they relay and consume.
#[tokio::test]
async fn a_worker_without_a_broker_is_not_ready() {
    let rig = Rig::new().await;
    let (worker, writer) = (rig.work().await, rig.start("serve", &[]).await);
    eventually("a worker that is ready", async || worker.is_ready().await).await;
    rig.broker.kill(0).await;
    eventually("a worker that is not", async || !worker.is_ready().await).await;
    assert!(writer.is_ready().await);
    rig.broker.restart(0).await;
    eventually("a worker that is again", async || worker.is_ready().await).await;
}

#[tokio::test]
async fn a_broker_that_was_frozen_gets_everything() {
    endure(1, async |rig| {
        rig.broker.freeze(0).await;
        // Longer than the relay waits for an answer.
        tokio::time::sleep(Duration::from_secs(15)).await;
        rig.broker.thaw(0).await;
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn a_broker_that_was_killed_and_away_for_a_minute_gets_everything() {
    endure(1, async |rig| {
        rig.broker.kill(0).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        rig.broker.restart(0).await;
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn the_others_lead_what_a_killed_node_has_led() {
    endure(3, async |rig| {
        let key = &rig.keys().await[0];
        eventually("an event of the key", async || rig.log.partition(&stream(key)).is_some()).await;
        let partition = rig.log.partition(&stream(key)).unwrap();
        let leader = rig.broker.leader(COUNTED, partition).await;
        rig.broker.kill(leader).await;
        // What is counted from now on is written and read without it.
        let so_far = rig.number(&format!("select n from account where key = '{key}'")).await;
        let applied = format!("select count(*) from applied where key = '{key}'");
        eventually("later events of the key", async || rig.number(&applied).await > so_far).await;
        rig.broker.restart(leader).await;
    })
    .await;
}
