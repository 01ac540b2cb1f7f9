//! A broker that is down or does not respond.

use std::time::Duration;

use crate::rig::{COUNTED, Rig, eventually, stream_of};

/// Runs a service under load, injects a fault, and asserts that the verdict has no faults.
///
/// The load is light. Unlike Kafka, the embedded broker accepts a second request of a partition
/// after it has rejected the first one.
pub async fn run_with_fault(nodes: u16, inject: impl AsyncFnOnce(&Rig)) {
    let rig = Rig::with_nodes(nodes).await;
    let service = rig.start("both", &[("LEDGER_WRITERS", "2"), ("LEDGER_PAUSE_MS", "20")]).await;
    rig.wait_until_committed(50).await;
    inject(&rig).await;
    let so_far = rig.query_number("select sum(n)::bigint from account").await;
    rig.wait_until_committed(so_far + 50).await;
    assert!(service.terminate().await.success());
    let _worker = rig.start_worker().await;
    rig.expect_no_faults().await;
}

/// RULE-EVT-031: processes of the role `serve` write without a broker.
#[tokio::test]
async fn service_without_a_broker_continues_to_write() {
    let rig = Rig::with_nodes(1).await;
    rig.broker.kill(0).await;
    let writers = rig.start("serve", &[]).await;
    rig.wait_until_committed(100).await;
    assert!(writers.terminate().await.success());
    rig.broker.restart(0).await;
    let _worker = rig.start_worker().await;
    rig.expect_no_faults().await;
}

/// RULE-ALL-052: readiness of a worker needs the broker, readiness of the role `serve` does not.
#[tokio::test]
async fn worker_without_a_broker_is_not_ready() {
    let rig = Rig::with_nodes(1).await;
    let (worker, writer) = (rig.start_worker().await, rig.start("serve", &[]).await);
    eventually("a ready worker", async || worker.is_ready().await).await;
    rig.broker.kill(0).await;
    eventually("a worker that is not ready", async || !worker.is_ready().await).await;
    assert!(writer.is_ready().await);
    rig.broker.restart(0).await;
    eventually("a worker that is ready again", async || worker.is_ready().await).await;
}

/// RULE-EVT-031: a broker that was frozen for 15 s receives all events.
#[tokio::test]
async fn frozen_broker_receives_all_events() {
    run_with_fault(1, async |rig| {
        rig.broker.freeze(0).await;
        // Longer than the timeout of the relay's requests, 10 s.
        tokio::time::sleep(Duration::from_secs(15)).await;
        rig.broker.thaw(0).await;
    })
    .await;
}

/// RULE-EVT-031: a real broker that was down for a minute under load receives all events.
#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn broker_that_was_down_for_a_minute_receives_all_events() {
    run_with_fault(1, async |rig| {
        rig.broker.kill(0).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        rig.broker.restart(0).await;
    })
    .await;
}

/// RULE-EVT-031: after one of three nodes of a real cluster is killed, the other nodes receive all
/// events.
#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn other_nodes_lead_the_partitions_of_a_killed_node() {
    run_with_fault(3, async |rig| {
        let key = &rig.keys().await[0];
        eventually("an event of the key", async || rig.log.partition(&stream_of(key)).is_some()).await;
        let partition = rig.log.partition(&stream_of(key)).unwrap();
        let leader = rig.broker.leader(COUNTED, partition).await;
        rig.broker.kill(leader).await;
        // Later events of the key are written and read without the killed node.
        let so_far = rig.query_number(&format!("select n from account where key = '{key}'")).await;
        let applied = format!("select count(*) from applied where key = '{key}'");
        eventually("later events of the key", async || rig.query_number(&applied).await > so_far).await;
        rig.broker.restart(leader).await;
    })
    .await;
}
