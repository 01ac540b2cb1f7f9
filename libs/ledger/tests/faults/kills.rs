//! A process that is killed at each step between the change and the deletion of its outbox row.
//!
//! The service has no hooks for the tests. Locks and a frozen broker hold the process at the step.

use std::time::Duration;

use crate::rig::{Rig, eventually};

const DELETE: &str = "select outbox_delete(%";

/// RULE-EVT-029: a process that is killed before its commit publishes no event.
#[tokio::test]
async fn process_killed_before_its_commit_publishes_no_event() {
    let rig = Rig::new().await;
    let lock = rig.lock("outbox").await;
    let writers = rig.start("serve", &[]).await;
    rig.wait_until_blocked(1, "insert into%outbox%").await;
    writers.kill();
    lock.release().await;
    let _worker = rig.start_worker().await;
    rig.step().await;
    let verdict = rig.expect_no_faults().await;
    assert_eq!(verdict.committed, 8, "only the changes after the kill");
}

/// RULE-EVT-029: a process that is killed after its commit loses no event.
#[tokio::test]
async fn event_of_a_process_killed_after_its_commit_is_sent() {
    let rig = Rig::with_nodes(1).await;
    rig.broker.kill(0).await;
    let service = rig.start("both", &[]).await;
    rig.wait_until_committed(100).await;
    service.kill();
    assert!(rig.query_number("select count(*) from outbox").await >= 100);
    rig.broker.restart(0).await;
    let _worker = rig.start_worker().await;
    rig.expect_no_faults().await;
}

/// RULE-EVT-029: a relay that is killed while the broker is frozen loses no event.
#[tokio::test]
async fn event_of_a_relay_killed_during_a_broker_freeze_is_sent() {
    let rig = Rig::with_nodes(1).await;
    let worker = rig.start_worker().await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    eventually("an empty outbox", async || rig.query_number("select count(*) from outbox").await == 0).await;
    rig.broker.freeze(0).await;
    rig.step().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    worker.kill();
    rig.broker.thaw(0).await;
    assert_eq!(rig.query_number("select count(*) from outbox").await, 8);
    let _worker = rig.start_worker().await;
    rig.expect_no_faults().await;
}

/// RULE-EVT-029: a relay that is killed before it deletes the rows loses no event.
#[tokio::test]
async fn event_of_a_relay_killed_before_the_deletion_is_sent_again() {
    let rig = Rig::new().await;
    rig.step().await;
    let lock = rig.lock("outbox").await;
    let worker = rig.start_worker().await;
    rig.wait_until_blocked(1, DELETE).await;
    worker.kill();
    // The server would continue the statement, since it has not noticed the end of the process.
    assert!(rig.terminate_connections().await > 0);
    lock.release().await;
    let _worker = rig.start_worker().await;
    let verdict = rig.expect_no_faults().await;
    // The broker may have accepted fewer than eight events before the kill.
    assert!(verdict.repeated > 0, "{verdict:?}");
}

/// RULE-EVT-029: a relay that is killed after it has deleted the rows has sent them once.
#[tokio::test]
async fn event_of_a_relay_killed_after_the_deletion_is_not_sent_again() {
    let rig = Rig::new().await;
    let worker = rig.start_worker().await;
    rig.step().await;
    eventually("an empty outbox", async || rig.query_number("select count(*) from outbox").await == 0).await;
    worker.kill();
    let _worker = rig.start_worker().await;
    let verdict = rig.expect_no_faults().await;
    assert_eq!(verdict.repeated, 0);
}
