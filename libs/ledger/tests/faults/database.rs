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
    // Who waits looks for a deadlock once: the message after so long, when there is one, and long before the other.
    let looks = "alter database %I set deadlock_timeout = '5s'";
    let looks = format!("do $$ begin execute format($sql${looks}$sql$, current_database()); end $$");
    rig.db.batch_execute(&looks).await.unwrap();
    let worker = rig.start("work", &[("DATABASE_STATEMENT_TIMEOUT_MS", "60000")]).await;
    rig.step().await;
    rig.applied(8).await;
    let other = rig.lock("applied").await;
    rig.step_with(&rig.keys().await[0], 0).await;
    rig.blocked(1, "insert into applied%").await;
    other.execute("set local deadlock_timeout = '1min'; lock table inbox in share mode").await;
    other.release().await;
    eventually("another attempt", async || worker.metric("consumer_retries_total").await >= 1.0).await;
    rig.clean().await;
}

#[tokio::test]
async fn a_relay_whose_pool_is_used_up_stays_the_relay() {
    let rig = Rig::new().await;
    let settings = [("DATABASE_POOL_SIZE", "2"), ("DATABASE_STATEMENT_TIMEOUT_MS", "60000")];
    let _worker = rig.start("work", &settings).await;
    rig.step().await;
    rig.applied(8).await;
    let epoch = rig.epoch().await;
    let lock = rig.lock("applied").await;
    rig.step().await;
    // Both connections belong to messages in hand.
    rig.blocked(2, "insert into applied%").await;
    rig.step().await;
    // Longer than the lease lasts, and than the pool is waited for.
    tokio::time::sleep(Duration::from_secs(5)).await;
    lock.release().await;
    rig.clean().await;
    assert_eq!(rig.epoch().await, epoch);
}

#[tokio::test]
async fn a_table_that_is_away_for_a_while_does_not_empty_a_topic_into_dead_letters() {
    let rig = Rig::new().await;
    let worker = rig.work().await;
    rig.step().await;
    rig.applied(8).await;
    rig.db.batch_execute("alter table applied rename to away").await.unwrap();
    for _ in 0..10 {
        rig.step().await;
    }
    eventually("a pause", async || worker.metric("consumer_paused").await >= 1.0).await;
    assert!(worker.logged("every message fails in the database").is_some());
    for _ in 0..10 {
        rig.step().await;
    }
    eventually("the relay", async || rig.number("select count(*) from outbox").await == 0).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let first = "select count(distinct key) from dead_letter";
    assert!(rig.number(first).await < 5, "keys that were put aside");
    let dead = rig.number("select count(*) from dead_letter").await;
    assert!(dead < 80, "{dead} of 160 were put aside");

    rig.db.batch_execute("alter table away rename to applied").await.unwrap();
    eventually("its end", async || worker.metric("consumer_paused").await == 0.0).await;
    rig.settle().await;
    let replayed = rig.operate(&["dead-letters", "replay"]);
    assert!(replayed.status.success(), "{replayed:?}");
    rig.clean().await;
}
