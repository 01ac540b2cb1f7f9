//! A database that drops or refuses connections, restarts, crashes, resolves a deadlock, lacks a
//! table, or is slow.

use std::time::Duration;

use testkit::postgres::{Postgres, ShutdownMode};

use crate::rig::{Rig, eventually};

/// RULE-EVT-032: no event is lost if the database drops connections under load.
#[tokio::test]
async fn terminated_connections_lose_no_event() {
    let rig = Rig::new().await;
    let service = rig.start("both", &[]).await;
    rig.wait_until_committed(50).await;
    let mut terminated = 0;
    for _ in 0..25 {
        terminated += rig.terminate_connections().await;
        tokio::time::sleep(Duration::from_millis(rand::random_range(100..500))).await;
    }
    assert!(terminated > 25, "{terminated} connections");
    let so_far = rig.query_number("select sum(n)::bigint from account").await;
    rig.wait_until_committed(so_far + 50).await;
    assert!(service.terminate().await.success());
    let _worker = rig.start_worker().await;
    rig.expect_no_faults().await;
}

/// RULE-EVT-032: no event is lost if the database refuses connections for 6 s.
#[tokio::test]
async fn database_that_refuses_connections_loses_no_event() {
    let rig = Rig::new().await;
    let service = rig.start("both", &[]).await;
    rig.wait_until_committed(50).await;
    rig.refuse_connections(true).await;
    rig.terminate_connections().await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    rig.refuse_connections(false).await;
    let so_far = rig.query_number("select sum(n)::bigint from account").await;
    rig.wait_until_committed(so_far + 50).await;
    assert!(service.terminate().await.success());
    let _worker = rig.start_worker().await;
    rig.expect_no_faults().await;
}

/// Runs a service under load, stops and restarts its database server four times, and asserts that
/// the verdict has no faults.
async fn restart_under_load(mode: ShutdownMode) {
    let mut postgres = Postgres::start().await.unwrap();
    let mut rig = Rig::with_postgres(&postgres).await;
    let service = rig.start("both", &[]).await;
    for _ in 0..4 {
        let so_far = rig.query_number("select sum(n)::bigint from account").await;
        rig.wait_until_committed(so_far + 100).await;
        postgres.stop(mode).await.unwrap();
        postgres.restart().await.unwrap();
        rig.reconnect().await;
    }
    let so_far = rig.query_number("select sum(n)::bigint from account").await;
    rig.wait_until_committed(so_far + 50).await;
    assert!(service.terminate().await.success());
    let _worker = rig.start_worker().await;
    rig.expect_no_faults().await;
}

/// RULE-EVT-032: no event is lost if the database crashes and recovers under load.
#[tokio::test]
async fn crashed_database_loses_no_event() {
    restart_under_load(ShutdownMode::Immediate).await;
}

/// RULE-EVT-032: no event is lost if the database restarts under load.
#[tokio::test]
async fn restarted_database_loses_no_event() {
    restart_under_load(ShutdownMode::Fast).await;
}

/// RULE-EVT-032: the victim of a deadlock is retried. The consumer locks `inbox` before `applied`,
/// and another transaction locks them in the reverse order.
#[tokio::test]
async fn deadlock_victim_is_retried() {
    let rig = Rig::new().await;
    // A waiting transaction checks for a deadlock once, after the timeout. The consumer becomes the
    // victim, because its timeout is shorter and ends after the deadlock has begun.
    let timeout = "alter database %I set deadlock_timeout = '5s'";
    let timeout = format!("do $$ begin execute format($sql${timeout}$sql$, current_database()); end $$");
    rig.db.batch_execute(&timeout).await.unwrap();
    let worker = rig.start("work", &[("DATABASE_STATEMENT_TIMEOUT_MS", "60000")]).await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    let other = rig.lock("applied").await;
    rig.step_with(&rig.keys().await[0], 0).await;
    rig.wait_until_blocked(1, "insert into applied%").await;
    other.execute("set local deadlock_timeout = '1min'; lock table inbox in share mode").await;
    other.release().await;
    eventually("a retry", async || worker.metric("consumer_retries_total").await >= 1.0).await;
    rig.expect_no_faults().await;
}

/// RULE-EVT-032: the relay renews its lease while the handlers use all connections of the pool.
#[tokio::test]
async fn relay_with_an_exhausted_pool_keeps_its_lease() {
    let rig = Rig::new().await;
    let settings = [("DATABASE_POOL_SIZE", "2"), ("DATABASE_STATEMENT_TIMEOUT_MS", "60000")];
    let _worker = rig.start("work", &settings).await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    let epoch = rig.epoch().await;
    let lock = rig.lock("applied").await;
    rig.step().await;
    // Handlers use both connections.
    rig.wait_until_blocked(2, "insert into applied%").await;
    rig.step().await;
    // Longer than the lease and than the timeout of the pool.
    tokio::time::sleep(Duration::from_secs(5)).await;
    lock.release().await;
    rig.expect_no_faults().await;
    assert_eq!(rig.epoch().await, epoch);
}

/// RULE-EVT-032: while a table is missing, the consumer pauses and does not dead-letter all
/// messages of a topic.
#[tokio::test]
async fn missing_table_suspends_dead_lettering() {
    let rig = Rig::new().await;
    let worker = rig.start_worker().await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    rig.db.batch_execute("alter table applied rename to missing").await.unwrap();
    for _ in 0..10 {
        rig.step().await;
    }
    eventually("a paused consumer", async || worker.metric("consumer_paused").await >= 1.0).await;
    assert!(worker.find_log_line("every message fails in the database").is_some());
    for _ in 0..10 {
        rig.step().await;
    }
    eventually("an empty outbox", async || rig.query_number("select count(*) from outbox").await == 0).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let keys = "select count(distinct key) from dead_letter";
    assert!(rig.query_number(keys).await < 5, "five failing keys suspend dead-lettering");
    let dead = rig.query_number("select count(*) from dead_letter").await;
    assert!(dead < 80, "{dead} of 160 messages were dead-lettered");

    rig.db.batch_execute("alter table missing rename to applied").await.unwrap();
    eventually("the end of the pause", async || worker.metric("consumer_paused").await == 0.0).await;
    rig.wait_until_settled().await;
    let replayed = rig.run_command(&["dead-letters", "replay"]);
    assert!(replayed.status.success(), "{replayed:?}");
    rig.expect_no_faults().await;
}

/// Runs steps of all accounts until the consumer has retried the poisoned one eight times or has
/// dead-lettered it.
async fn step_until_retried(rig: &Rig, worker: &crate::replica::Replica) {
    while worker.metric("consumer_retries_total").await < 8.0
        && rig.query_number("select count(*) from dead_letter").await == 0
    {
        rig.step().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

const SHORT_TIMEOUT: [(&str, &str); 1] = [("DATABASE_STATEMENT_TIMEOUT_MS", "500")];

/// RULE-EVT-032: a message whose statement is always too slow becomes a dead letter, and others are
/// applied.
#[tokio::test]
async fn message_with_a_slow_statement_is_dead_lettered() {
    let rig = Rig::new().await;
    let worker = rig.start("work", &SHORT_TIMEOUT).await;
    let key = &rig.keys().await[0];
    rig.poison(key, "slow").await;
    step_until_retried(&rig, &worker).await;
    let error = "select count(*) from dead_letter where error like '%statement timeout%'";
    assert_eq!(rig.query_number(error).await, 1);
    rig.remove_poison().await;
    assert!(rig.run_command(&["dead-letters", "replay"]).status.success());
    rig.expect_no_faults().await;
}

/// RULE-EVT-032: a message that waits for a lock is retried for as long as the lock is held.
#[tokio::test]
async fn message_that_waits_for_a_lock_is_not_dead_lettered() {
    let rig = Rig::new().await;
    let worker = rig.start("work", &SHORT_TIMEOUT).await;
    let key = &rig.keys().await[0];
    rig.poison(key, "locked").await;
    let holder = rig.begin().await;
    holder.execute("select from poison for update").await;
    step_until_retried(&rig, &worker).await;
    assert_eq!(rig.query_number("select count(*) from dead_letter").await, 0);
    holder.release().await;
    rig.expect_no_faults().await;
}
