//! A process that stops for longer than its lease and then goes on as if nothing had been.

use std::time::Duration;

use testkit::history::Fault;

use crate::replica::Replica;
use crate::rig::{Rig, eventually};

/// Waits until the replica has noticed that it is the relay no more.
async fn fenced(replica: &Replica) {
    eventually("the fence", async || replica.metric("outbox_fenced_total").await >= 1.0).await;
}

#[tokio::test]
async fn the_late_deletion_of_a_frozen_relay_is_fenced() {
    let rig = Rig::new().await;
    let patient = [("DATABASE_STATEMENT_TIMEOUT_MS", "60000")];
    let frozen = rig.start("work", &patient).await;
    rig.step().await;
    rig.applied(8).await;
    // Asleep while the lock is taken, so that it comes as far as the deletion and no further.
    frozen.freeze();
    rig.step().await;
    let lock = rig.lock("outbox").await;
    frozen.thaw();
    rig.blocked(1, "delete %from \"outbox\"%").await;
    frozen.freeze();
    let epoch = rig.epoch().await;
    let successor = rig.start("work", &patient).await;
    eventually("a takeover", async || rig.epoch().await > epoch).await;
    rig.blocked(2, "delete %from \"outbox\"%").await;
    lock.release().await;
    eventually("the successor's deletion", async || rig.number("select count(*) from outbox").await == 0)
        .await;
    rig.step().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    frozen.thaw();
    fenced(&frozen).await;
    rig.step().await;
    let verdict = rig.clean().await;
    assert!(verdict.repeated >= 8, "{verdict:?}");
    drop(successor);
}

/// It cannot know whether its renewal was answered in time, so it is the relay no more.
#[tokio::test]
async fn a_relay_that_is_frozen_while_it_renews_its_lease_is_fenced() {
    let rig = Rig::new().await;
    let frozen = rig.work().await;
    rig.step().await;
    rig.applied(8).await;
    let lock = rig.lock("outbox_lease").await;
    rig.blocked(1, "update outbox_lease%").await;
    frozen.freeze();
    let epoch = rig.epoch().await;
    lock.release().await;
    let _successor = rig.work().await;
    eventually("a takeover", async || rig.epoch().await > epoch).await;
    frozen.thaw();
    fenced(&frozen).await;
    rig.step().await;
    rig.clean().await;
}

/// Kafka has no fence for what a frozen process had already handed to its client: it may be written
/// late, once. Consumers know it by its sequence.
#[tokio::test]
async fn what_a_frozen_relay_had_queued_is_applied_once() {
    let rig = Rig::new().await;
    let frozen = rig.work().await;
    rig.step().await;
    rig.applied(8).await;
    rig.broker.kill(0).await;
    rig.step().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    frozen.freeze();
    let epoch = rig.epoch().await;
    rig.broker.restart(0).await;
    let _successor = rig.work().await;
    eventually("a takeover", async || rig.epoch().await > epoch).await;
    rig.step().await;
    rig.settle().await;
    frozen.thaw();
    fenced(&frozen).await;
    rig.step().await;
    rig.settle().await;
    let verdict = rig.verdict().await;
    assert!(verdict.faults.iter().all(|(fault, ..)| *fault == Fault::Stale), "{verdict:?}");
    assert_eq!(rig.miscounted().await, 0);
    eprintln!("{} repeated, {} of them stale", verdict.repeated, verdict.count(Fault::Stale));
}

#[tokio::test]
async fn a_replica_that_freezes_under_load_and_wakes_disturbs_nothing() {
    let rig = Rig::new().await;
    let writers = rig.start("serve", &[]).await;
    let frozen = rig.work().await;
    rig.committed(100).await;
    let _other = rig.work().await;
    rig.committed(200).await;
    let epoch = rig.epoch().await;
    frozen.freeze();
    eventually("a takeover", async || rig.epoch().await > epoch).await;
    // Its consumer is missed too by now.
    tokio::time::sleep(Duration::from_secs(3)).await;
    frozen.thaw();
    rig.committed(800).await;
    assert!(writers.terminate().await.success());
    rig.settle().await;
    let verdict = rig.verdict().await;
    assert!(verdict.faults.iter().all(|(fault, ..)| *fault == Fault::Stale), "{verdict:?}");
    assert_eq!(rig.miscounted().await, 0);
    eprintln!("{} repeated, {} of them stale", verdict.repeated, verdict.count(Fault::Stale));
}
