//! A database whose history goes back: a failover to a standby that has not received the last
//! transactions.

use std::time::Duration;

use testkit::database;
use testkit::postgres::Postgres;

use crate::rig::{COUNTED, Rig, eventually};

/// The number of steps that the standby does not receive. After a promotion, a sequence may skip up
/// to 32 ids. With fewer lost events it might assign no id twice.
const LOST_STEPS: usize = 9;
/// Longer than the interval in which a consumer commits its offsets.
const OFFSET_COMMIT_TIME: Duration = Duration::from_secs(3);

/// Sets back the sequence and the history of the lease, as in a promoted standby.
const REWIND_OUTBOX: &str = "select setval(pg_get_serial_sequence('outbox', 'id'), 1); \
    update outbox_lease set history = 'another'";
/// Counts the accounts whose events were not applied once and in order.
const MISAPPLIED: &str = "select count(*) from account where array(select applied.n from applied \
    where applied.key = account.key order by id) <> array(select generate_series(1, account.n))";

/// RULE-EVT-044: the events of a promoted standby are applied, although its sequence repeats
/// numbers of lost events. Events that were published before the failover are not applied again.
#[tokio::test]
async fn events_of_a_promoted_publisher_are_applied_once() {
    let mut postgres = Postgres::start().await.unwrap();
    let mut rig = Rig::with_postgres(&postgres).await;
    let consumer = rig.add_deployment(&database::create().await.unwrap()).await;
    let consuming = consumer.start_worker().await;
    let worker = rig.start_worker().await;
    rig.step().await;
    consumer.wait_until_accounts_reach(1).await;
    assert!(worker.terminate().await.success());
    // The standby has these events, but not the deletions that follow their publication.
    rig.step().await;
    postgres.create_standby().await.unwrap();
    let worker = rig.start_worker().await;
    consumer.wait_until_accounts_reach(2).await;
    for _ in 0..LOST_STEPS {
        rig.step().await;
    }
    let last_lost_id = rig.query_number("select last_value from outbox_id_seq").await;
    let before = 2 + i64::try_from(LOST_STEPS).unwrap();
    consumer.wait_until_accounts_reach(before).await;

    postgres.fail_over().await.unwrap();
    rig.reconnect().await;
    assert!(
        rig.query_number("select last_value from outbox_id_seq").await + 8 <= last_lost_id,
        "the sequence repeats no lost id"
    );
    // The failover has also reset the counts. The consumer expects consecutive counts, so the test
    // sets them to the lost values.
    let count = format!("update account set n = {before}");
    rig.db.batch_execute(&count).await.unwrap();
    rig.step().await;

    consumer.wait_until_accounts_reach(before + 1).await;
    rig.step().await;
    consumer.wait_until_accounts_reach(before + 2).await;
    assert!(
        consuming.metric("consumer_duplicates_total").await >= 8.0,
        "no event of the standby was sent again"
    );
    assert!(consuming.metric("consumer_sequence_went_back_total").await < 1.0, "a sequence repeats");
    assert!(worker.metric("outbox_history_changed_total").await >= 1.0);
    assert_eq!(rig.query_number("select count(*) from outbox").await, 0);
}

/// RULE-EVT-045: without a command, a consumer first applies again the messages whose receipts its
/// database has lost, and then later ones.
#[tokio::test]
async fn promoted_consumer_applies_messages_without_receipts_again() {
    let mut postgres = Postgres::start().await.unwrap();
    let rig = Rig::new().await;
    let consumer = rig.add_deployment(&postgres.url()).await;
    let _worker = rig.start_worker().await;
    let consuming = consumer.start_worker().await;
    rig.step().await;
    rig.step().await;
    consumer.wait_until_accounts_reach(2).await;
    postgres.create_standby().await.unwrap();
    for _ in 0..3 {
        rig.step().await;
    }
    consumer.wait_until_accounts_reach(5).await;
    tokio::time::sleep(OFFSET_COMMIT_TIME).await;

    postgres.fail_over().await.unwrap();
    rig.step().await;

    consumer.wait_until_accounts_reach(6).await;
    assert!(consuming.metric("consumer_rewound_partitions_total").await >= 1.0);
    drop(consuming);
    // Another replica does not check the positions again, since the first one has recorded the
    // check.
    let consuming = consumer.start_worker().await;
    rig.step().await;
    consumer.wait_until_accounts_reach(7).await;
    assert!(consuming.metric("consumer_rewound_partitions_total").await < 1.0);
}

/// RULE-EVT-045: messages whose receipts are lost are applied again although no later message
/// arrives.
#[tokio::test]
async fn idle_consumer_applies_messages_without_receipts_again() {
    let mut postgres = Postgres::start().await.unwrap();
    let rig = Rig::new().await;
    let consumer = rig.add_deployment(&postgres.url()).await;
    let _worker = rig.start_worker().await;
    let _consuming = consumer.start_worker().await;
    postgres.create_standby().await.unwrap();
    rig.step().await;
    consumer.wait_until_accounts_reach(1).await;
    tokio::time::sleep(OFFSET_COMMIT_TIME).await;

    postgres.fail_over().await.unwrap();

    consumer.wait_until_accounts_reach(1).await;
}

/// RULE-EVT-044: a consumer applies an event whose sequence is not above the last one, but whose
/// time is later.
#[tokio::test]
async fn later_event_with_a_lower_sequence_is_applied() {
    let rig = Rig::new().await;
    let worker = rig.start_worker().await;
    for _ in 0..3 {
        rig.step().await;
    }
    rig.wait_until_applied(24).await;
    let back = "select setval(pg_get_serial_sequence('outbox', 'id'), 1)";
    rig.db.batch_execute(back).await.unwrap();
    rig.step().await;
    rig.wait_until_applied(32).await;
    eventually("the count", async || worker.metric("consumer_sequence_went_back_total").await >= 8.0).await;
    assert_eq!(rig.miscounted_accounts().await, 0);
}

/// RULE-EVT-044: an event whose transaction is open while the relay renumbers gets a new sequence,
/// too.
#[tokio::test]
async fn event_of_an_open_transaction_is_renumbered() {
    let rig = Rig::new().await;
    let worker = rig.start_worker().await;
    for _ in 0..3 {
        rig.step().await;
    }
    rig.wait_until_applied(24).await;
    assert!(worker.terminate().await.success());
    rig.db.batch_execute(REWIND_OUTBOX).await.unwrap();
    let key = &rig.keys().await[0];
    let open = rig.begin().await;
    open.execute(&format!(
        "update account set n = n + 1 where key = '{key}'; \
         insert into outbox (event_id, topic, key, type, payload, headers) \
         values (gen_random_uuid(), '{COUNTED}', '{key}', '{COUNTED}', \
         convert_to(json_build_object('Key', '{key}', 'N', 4)::text, 'UTF8'), '{{}}')"
    ))
    .await;
    let worker = rig.start_worker().await;
    rig.wait_until_blocked(1, "lock table outbox%").await;
    open.release().await;
    rig.step().await;
    rig.wait_until_applied(33).await;
    assert_eq!(rig.query_number(MISAPPLIED).await, 0);
    assert!(worker.metric("consumer_sequence_went_back_total").await < 1.0);
    let clock = "select min(sequence) - 1700000000000000 from inbox";
    assert!(rig.query_number(clock).await > 0, "sequences are the microseconds of the clock");
}

/// RULE-EVT-044: a relay whose lease is still valid in the promoted standby publishes nothing
/// before it has renumbered the events.
#[tokio::test]
async fn running_relay_publishes_nothing_in_another_history() {
    let rig = Rig::new().await;
    let worker = rig.start_worker().await;
    for _ in 0..3 {
        rig.step().await;
    }
    rig.wait_until_applied(24).await;
    rig.db.batch_execute(REWIND_OUTBOX).await.unwrap();
    rig.step().await;
    rig.wait_until_applied(32).await;
    assert_eq!(rig.query_number(MISAPPLIED).await, 0);
    assert!(worker.metric("consumer_sequence_went_back_total").await < 1.0);
    eventually("the count", async || worker.metric("outbox_history_changed_total").await >= 1.0).await;
}
