//! A process is killed at each step of an event's way. Nothing in the service helps with that: locks
//! and a frozen broker hold it where it is to die.

use std::time::Duration;

use crate::rig::{Rig, eventually};

const DELETE: &str = "delete %from \"outbox\"%";

#[tokio::test]
async fn killed_before_its_commit_a_change_leaves_no_event() {
    let rig = Rig::new().await;
    let lock = rig.lock("outbox").await;
    let writers = rig.start("serve", &[]).await;
    rig.blocked(1, "insert into%outbox%").await;
    writers.kill();
    lock.release().await;
    let _worker = rig.work().await;
    rig.step().await;
    let verdict = rig.clean().await;
    assert_eq!(verdict.committed, 8, "only what was counted after the kill");
}

#[tokio::test]
async fn killed_after_its_commit_an_event_is_sent_by_the_next() {
    let rig = Rig::new().await;
    rig.broker.kill(0).await;
    let service = rig.start("both", &[]).await;
    rig.committed(100).await;
    service.kill();
    assert!(rig.number("select count(*) from outbox").await >= 100);
    rig.broker.restart(0).await;
    let _worker = rig.work().await;
    rig.clean().await;
}

#[tokio::test]
async fn killed_while_the_broker_is_frozen_an_event_is_sent_by_the_next() {
    let rig = Rig::new().await;
    let worker = rig.work().await;
    rig.step().await;
    rig.applied(8).await;
    eventually("the deletion", async || rig.number("select count(*) from outbox").await == 0).await;
    rig.broker.freeze(0).await;
    rig.step().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    worker.kill();
    rig.broker.thaw(0).await;
    assert_eq!(rig.number("select count(*) from outbox").await, 8);
    let _worker = rig.work().await;
    rig.clean().await;
}

#[tokio::test]
async fn killed_before_the_deletion_an_event_is_sent_again() {
    let rig = Rig::new().await;
    rig.step().await;
    let lock = rig.lock("outbox").await;
    let worker = rig.work().await;
    rig.blocked(1, DELETE).await;
    worker.kill();
    // The server would go on with the statement of a process that it does not know to be dead.
    assert!(rig.disconnect().await > 0);
    lock.release().await;
    let _worker = rig.work().await;
    let verdict = rig.clean().await;
    // All that the broker had taken by then; on a busy machine that is not yet each of the eight.
    assert!(verdict.repeated > 0, "{verdict:?}");
}

#[tokio::test]
async fn killed_after_the_deletion_an_event_is_not_sent_again() {
    let rig = Rig::new().await;
    let worker = rig.work().await;
    rig.step().await;
    eventually("the deletion", async || rig.number("select count(*) from outbox").await == 0).await;
    worker.kill();
    let _worker = rig.work().await;
    let verdict = rig.clean().await;
    assert_eq!(verdict.repeated, 0);
}
