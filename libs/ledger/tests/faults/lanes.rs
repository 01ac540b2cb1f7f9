//! Rows that the relay has to skip: dead rows that a long snapshot keeps, and rows of held topics.

use crate::replica::Replica;
use crate::rig::{BULK, GROUP_PROPERTIES, Rig, eventually};

const PENDING: &str = "select count(*) from outbox";
const FLOOR: &str = "select coalesce(max(floor), 0)::bigint from outbox_lane";
/// Rows at the head of the outbox that the relay must not read for each batch.
const SKIPPED: i64 = 20_000;
/// Events that are sent one after the other behind these rows.
const SENT: i64 = 100;

/// Stops a worker and waits for the end of its connections, at which PostgreSQL records their
/// statistics.
async fn stop_worker(rig: &Rig, worker: Replica) {
    assert!(worker.terminate().await.success());
    eventually("the end of the connections", async || rig.terminate_connections().await == 0).await;
}

/// Sends events one after the other, and returns the number of index entries of the outbox that
/// were read for all of them.
async fn entries_read_for_single_events(rig: &Rig) -> i64 {
    const READ: &str = "select coalesce(sum(idx_tup_read), 0)::bigint from pg_stat_user_indexes \
        where relid = 'outbox'::regclass";
    // The test's own queries read no index.
    let settings = "set enable_indexscan = off; set enable_indexonlyscan = off; set enable_bitmapscan = off";
    rig.db.batch_execute(settings).await.unwrap();
    let pending = rig.query_number(PENDING).await;
    let before = rig.query_number(READ).await;
    let worker = rig.start_worker().await;
    let key = &rig.keys().await[0];
    for _ in 0..SENT {
        rig.step_with(key, 0).await;
        eventually("the event", async || rig.query_number(PENDING).await == pending).await;
    }
    stop_worker(rig, worker).await;
    rig.query_number(READ).await - before
}

/// RULE-EVT-043: rows that an open snapshot keeps after their deletion are not read for each batch.
#[tokio::test]
async fn deleted_rows_under_an_open_snapshot_are_not_read_again() {
    let rig = Rig::new().await;
    let snapshot = rig.begin().await;
    snapshot.execute("set transaction isolation level repeatable read; select from account").await;
    let worker = rig.start_worker().await;
    rig.append_bulk(SKIPPED).await;
    eventually("an empty outbox", async || rig.query_number(PENDING).await == 0).await;
    eventually("the floor", async || rig.query_number(FLOOR).await >= SKIPPED - 2_000).await;
    stop_worker(&rig, worker).await;
    let read = entries_read_for_single_events(&rig).await;
    eprintln!("{read} entries read for {SENT} events behind {SKIPPED} deleted rows");
    assert!(read < SENT * SKIPPED / 2, "{read} entries read");
    snapshot.release().await;
}

/// RULE-EVT-043: rows of a topic that does not exist are not read for the batches of other topics.
#[tokio::test]
async fn rows_of_a_missing_topic_are_not_read_for_other_topics() {
    let rig = Rig::new().await;
    rig.broker.remove_topic(BULK).await;
    rig.append_bulk(SKIPPED).await;
    rig.db.batch_execute("analyze outbox").await.unwrap();
    let worker = rig.start_worker().await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    eventually("the held rows", async || rig.query_number(PENDING).await == SKIPPED).await;
    stop_worker(&rig, worker).await;
    let read = entries_read_for_single_events(&rig).await;
    eprintln!("{read} entries read for {SENT} events behind {SKIPPED} held rows");
    assert!(read < SENT * SKIPPED / 2, "{read} entries read");
}

/// RULE-EVT-043: the floor of a topic stays below an id whose transaction is still open.
#[tokio::test]
async fn event_that_commits_behind_later_ones_is_sent() {
    let rig = Rig::new().await;
    let open = rig.begin().await;
    open.execute(&format!(
        "insert into outbox (event_id, topic, key, type, payload, headers) \
         values (gen_random_uuid(), '{BULK}', 'late', '{BULK}', '', '{{}}')"
    ))
    .await;
    let worker = rig.start_worker().await;
    for _ in 0..4 {
        rig.append_bulk(SKIPPED / 4).await;
        eventually("an empty outbox", async || rig.query_number(PENDING).await == 0).await;
    }
    // The relay raises a floor after two thousand events, unless a writer is open.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    rig.append_bulk(1).await;
    eventually("an empty outbox", async || rig.query_number(PENDING).await == 0).await;
    assert_eq!(rig.query_number(FLOOR).await, 0, "the writer is open");
    open.release().await;
    eventually("an empty outbox", async || rig.query_number(PENDING).await == 0).await;
    rig.append_bulk(SKIPPED).await;
    eventually("a floor", async || rig.query_number(FLOOR).await > 0).await;
    rig.step().await;
    rig.expect_no_faults().await;
    drop(worker);
}

/// RULE-EVT-040: a parked event is released below the floor of its topic, before the later events
/// of its key.
#[tokio::test]
async fn event_released_below_the_floor_is_sent() {
    let rig = Rig::new().await;
    let properties = format!("{GROUP_PROPERTIES},message.max.bytes=2000");
    let worker = rig.start("work", &[("KAFKA_PROPERTIES", &properties)]).await;
    let append = async |bytes: i32| {
        let insert = "insert into outbox (event_id, topic, key, type, payload, headers) \
            select gen_random_uuid(), $1, 'large', $1, convert_to(repeat('x', $2), 'UTF8'), '{}'";
        rig.db.execute(insert, &[&BULK, &bytes]).await.unwrap();
    };
    append(5000).await;
    eventually("a parked event", async || rig.query_number("select count(*) from outbox_parked").await == 1)
        .await;
    rig.append_bulk(SKIPPED).await;
    let id = rig.query_number("select id from outbox_parked").await;
    eventually("a floor above the parked event", async || rig.query_number(FLOOR).await > id).await;
    append(1).await;
    assert!(worker.terminate().await.success());
    let _worker = rig.start_worker().await;
    assert!(rig.run_command(&["parked", "release", &id.to_string()]).status.success());
    eventually("an empty outbox", async || rig.query_number(PENDING).await == 0).await;
    rig.wait_until_read().await;
    let verdict = rig.verdict().await;
    assert!(verdict.faults.is_empty(), "{verdict:?}");
}
