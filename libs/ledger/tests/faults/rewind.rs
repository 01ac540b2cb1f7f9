//! Consumers that are moved back after a restore of their database, or rebuilt from the beginning.

use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::rig::{Rig, eventually};

/// Copies the tables of the consumer.
const BACKUP: &str = "create table inbox_backup as table inbox; create table applied_backup as table applied";
const RESTORE: &str = "truncate inbox, applied; insert into inbox table inbox_backup; \
    insert into applied overriding system value table applied_backup";

/// Runs a command until it succeeds.
///
/// The command fails while the broker has not noticed that the last replica has left the group.
async fn run_until_success(rig: &Rig, command: &[&str]) {
    let mut output = rig.run_command(command);
    for _ in 0..20 {
        if output.status.success() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        output = rig.run_command(command);
    }
    panic!("{output:?}");
}

/// RULE-EVT-039: after a restore, a consumer that is moved back to a time applies the lost messages
/// again. The embedded broker stores no timestamps.
#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn rewound_consumer_restores_its_lost_state() {
    let rig = Rig::new().await;
    let worker = rig.start_worker().await;
    rig.step().await;
    rig.wait_until_applied(8).await;
    rig.step().await;
    rig.wait_until_applied(16).await;
    rig.db.batch_execute(BACKUP).await.unwrap();
    let backup_time: OffsetDateTime = std::time::SystemTime::now().into();
    let rewind_to = (backup_time - Duration::from_mins(1)).format(&Rfc3339).unwrap();
    for _ in 0..3 {
        rig.step().await;
    }
    rig.wait_until_applied(40).await;
    let output = rig.run_command(&["consumers", "rewind", "--to", &rewind_to]);
    assert!(!output.status.success(), "the consumer is running: {output:?}");
    assert!(worker.terminate().await.success());
    rig.db.batch_execute(RESTORE).await.unwrap();

    run_until_success(&rig, &["consumers", "rewind", "--to", &rewind_to]).await;
    let worker = rig.start_worker().await;
    rig.wait_until_applied(40).await;
    assert_eq!(rig.miscounted_accounts().await, 0);
    assert!(
        worker.metric("consumer_duplicates_total").await >= 15.0,
        "applied messages are dropped as duplicates"
    );
}

/// RULE-EVT-039: a rebuilt consumer applies its topics from the beginning. The embedded broker does
/// not report that a group is empty.
#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn rebuilt_consumer_reads_its_topics_from_the_beginning() {
    let rig = Rig::new().await;
    let worker = rig.start_worker().await;
    for _ in 0..3 {
        rig.step().await;
    }
    rig.wait_until_applied(24).await;
    let output = rig.run_command(&["consumers", "rebuild", "ledger.ledger"]);
    assert!(!output.status.success(), "the consumer is running: {output:?}");
    assert!(rig.query_number("select count(*) from inbox").await >= 8, "the receipts still exist");
    assert!(worker.terminate().await.success());
    rig.db.batch_execute("truncate applied").await.unwrap();

    run_until_success(&rig, &["consumers", "rebuild", "ledger.ledger"]).await;
    assert!(!rig.run_command(&["consumers", "rebuild", "ledger.unknown"]).status.success());
    let _worker = rig.start_worker().await;
    eventually("all messages", async || rig.query_number("select count(*) from applied").await == 24).await;
    assert_eq!(rig.miscounted_accounts().await, 0);
}

/// RULE-EVT-045: after `restored`, consumers move back to their last receipt.
#[tokio::test]
async fn consumer_of_a_restored_database_moves_back_to_its_last_receipt() {
    let rig = Rig::new().await;
    let worker = rig.start_worker().await;
    for _ in 0..2 {
        rig.step().await;
    }
    rig.wait_until_applied(16).await;
    rig.db.batch_execute(BACKUP).await.unwrap();
    for _ in 0..3 {
        rig.step().await;
    }
    rig.wait_until_applied(40).await;
    // The service stops with all offsets committed.
    assert!(worker.terminate().await.success());
    rig.db.batch_execute(RESTORE).await.unwrap();

    assert!(rig.run_command(&["restored"]).status.success());
    let worker = rig.start_worker().await;
    rig.wait_until_applied(40).await;
    assert_eq!(rig.miscounted_accounts().await, 0);
    let duplicates = worker.metric("consumer_duplicates_total").await;
    assert!(duplicates < 1.0, "{duplicates} applied messages are read again");
}
