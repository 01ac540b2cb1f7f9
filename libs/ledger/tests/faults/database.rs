//! A database that breaks off, goes away, crashes, or chooses a victim.

use std::time::Duration;

use testkit::postgres::{End, Postgres};

use crate::rig::{Rig, eventually};

#[tokio::test]
async fn connections_that_are_terminated_under_load_cost_nothing() {
    let rig = Rig::new().await;
    let service = rig.start("both", &[]).await;
    rig.committed(50).await;
    let mut terminated = 0;
    for _ in 0..25 {
        terminated += rig.disconnect().await;
        tokio::time::sleep(Duration::from_millis(rand::random_range(100..500))).await;
    }
    assert!(terminated > 25, "{terminated} connections");
    let so_far = rig.number("select sum(n)::bigint from account").await;
    rig.committed(so_far + 50).await;
    assert!(service.terminate().await.success());
    let _worker = rig.work().await;
    rig.clean().await;
}

#[tokio::test]
async fn a_database_that_lets_nobody_in_for_a_while_gets_everything() {
    let rig = Rig::new().await;
    let service = rig.start("both", &[]).await;
    rig.committed(50).await;
    rig.close(true).await;
    rig.disconnect().await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    rig.close(false).await;
    let so_far = rig.number("select sum(n)::bigint from account").await;
    rig.committed(so_far + 50).await;
    assert!(service.terminate().await.success());
    let _worker = rig.work().await;
    rig.clean().await;
}

/// A service under load, while its server ends again and again and comes back, and the verdict.
async fn restart_under_load(end: End) {
    let mut postgres = Postgres::start().await.unwrap();
    let mut rig = Rig::on(&postgres).await;
    let service = rig.start("both", &[]).await;
    for _ in 0..4 {
        let so_far = rig.number("select sum(n)::bigint from account").await;
        rig.committed(so_far + 100).await;
        postgres.stop(end).await.unwrap();
        postgres.restart().await.unwrap();
        rig.reconnect().await;
    }
    let so_far = rig.number("select sum(n)::bigint from account").await;
    rig.committed(so_far + 50).await;
    assert!(service.terminate().await.success());
    let _worker = rig.work().await;
    rig.clean().await;
}

#[tokio::test]
async fn a_database_that_crashes_under_load_forgets_nothing() {
    restart_under_load(End::Crash).await;
}

#[tokio::test]
async fn a_database_that_is_restarted_under_load_gets_everything() {
    restart_under_load(End::Fast).await;
}

/// The message's transaction has its receipt and wants to write what it was told; another has the reverse.
#[tokio::test]
async fn a_message_that_is_the_victim_of_a_deadlock_is_tried_again() {
    let rig = Rig::new().await;
    let worker = rig.work().await;
    rig.step().await;
    rig.applied(8).await;
    let other = rig.lock("applied").await;
    rig.step_with(&rig.keys().await[0], 0).await;
    rig.blocked(1, "insert into applied%").await;
    // The one that has waited for a second is ended: the message's.
    other.execute("lock table inbox in share mode").await;
    other.release().await;
    eventually("another attempt", async || worker.metric("consumer_retries_total").await >= 1.0).await;
    rig.clean().await;
}
