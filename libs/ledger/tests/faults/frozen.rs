//! A process that is frozen for longer than its lease and then resumes.

use std::time::Duration;

use testkit::history::Fault;

use crate::replica::Replica;
use crate::rig::{Rig, eventually};

/// Waits until the replica has detected that it has lost the lease.
async fn wait_until_fenced(replica: &Replica) {
    eventually("the fence", async || replica.metric("outbox_fenced_total").await >= 1.0).await;
}

/// RULE-EVT-030: the late deletion of a frozen relay is fenced.
#[tokio::test]
async fn late_deletion_of_a_frozen_relay_is_fenced() {
    let rig = Rig::new().await;
    let settings = [("DATABASE_STATEMENT_TIMEOUT_MS", "60000")];
    let frozen = rig.start("work", &settings).await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    // Frozen while the test takes the lock, so that the relay then waits at its deletion.
    frozen.freeze();
    rig.step().await;
    let lock = rig.lock("outbox").await;
    frozen.thaw();
    rig.wait_until_blocked(1, "select outbox_delete(%").await;
    frozen.freeze();
    let epoch = rig.epoch().await;
    let successor = rig.start("work", &settings).await;
    eventually("a takeover", async || rig.epoch().await > epoch).await;
    rig.wait_until_blocked(2, "select outbox_delete(%").await;
    lock.release().await;
    eventually("the successor's deletion", async || {
        rig.query_number("select count(*) from outbox").await == 0
    })
    .await;
    rig.step().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    frozen.thaw();
    wait_until_fenced(&frozen).await;
    rig.step().await;
    let verdict = rig.expect_no_faults().await;
    assert!(verdict.repeated >= 8, "{verdict:?}");
    drop(successor);
}

/// RULE-EVT-030: a relay that is frozen during a renewal is fenced, since it cannot know whether
/// the renewal was in time.
#[tokio::test]
async fn relay_frozen_during_a_renewal_is_fenced() {
    let rig = Rig::new().await;
    let frozen = rig.start_worker().await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    let lock = rig.lock("outbox_lease").await;
    rig.wait_until_blocked(1, "update outbox_lease%").await;
    frozen.freeze();
    let epoch = rig.epoch().await;
    lock.release().await;
    let _successor = rig.start_worker().await;
    eventually("a takeover", async || rig.epoch().await > epoch).await;
    frozen.thaw();
    wait_until_fenced(&frozen).await;
    rig.step().await;
    rig.expect_no_faults().await;
}

/// RULE-EVT-030: events that a frozen relay had queued in its client arrive late and are applied
/// once. Kafka cannot fence them, but the inbox has their sequences.
#[tokio::test]
async fn queued_events_of_a_frozen_relay_are_applied_once() {
    let rig = Rig::with_nodes(1).await;
    let frozen = rig.start_worker().await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    rig.broker.kill(0).await;
    rig.step().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    frozen.freeze();
    let epoch = rig.epoch().await;
    rig.broker.restart(0).await;
    let _successor = rig.start_worker().await;
    eventually("a takeover", async || rig.epoch().await > epoch).await;
    rig.step().await;
    rig.wait_until_settled().await;
    frozen.thaw();
    wait_until_fenced(&frozen).await;
    rig.step().await;
    rig.wait_until_settled().await;
    let verdict = rig.verdict().await;
    assert!(verdict.faults.iter().all(|(fault, ..)| *fault == Fault::Stale), "{verdict:?}");
    assert_eq!(rig.miscounted_accounts().await, 0);
    eprintln!("{} repeated, {} of them stale", verdict.repeated, verdict.count(Fault::Stale));
}

/// RULE-EVT-030: a replica that is frozen under load and resumes causes no fault but stale events.
#[tokio::test]
async fn replica_frozen_under_load_causes_no_fault() {
    let rig = Rig::new().await;
    let writers = rig.start("serve", &[]).await;
    let frozen = rig.start_worker().await;
    rig.wait_until_committed(100).await;
    let _other = rig.start_worker().await;
    rig.wait_until_committed(200).await;
    let epoch = rig.epoch().await;
    frozen.freeze();
    eventually("a takeover", async || rig.epoch().await > epoch).await;
    // Longer than the session timeout of the consumer.
    tokio::time::sleep(Duration::from_secs(3)).await;
    frozen.thaw();
    rig.wait_until_committed(800).await;
    assert!(writers.terminate().await.success());
    rig.wait_until_settled().await;
    let verdict = rig.verdict().await;
    assert!(verdict.faults.iter().all(|(fault, ..)| *fault == Fault::Stale), "{verdict:?}");
    assert_eq!(rig.miscounted_accounts().await, 0);
    eprintln!("{} repeated, {} of them stale", verdict.repeated, verdict.count(Fault::Stale));
}
