//! The command `restored --since` aligns consumers with a restored database.

use std::process::Stdio;

use serde_json::json;

use crate::republish::{compacted, republish};
use crate::rig::{Rig, UPSERTED, eventually};

/// A time before every event of a test.
const SINCE: &str = "2020-01-01T00:00:00Z";

/// Runs `restored --since` and waits until the events have been sent.
async fn restore(rig: &Rig) {
    let output = rig.run_command(&["restored", "--since", SINCE]);
    assert!(output.status.success(), "{output:?}");
    eventually("an empty outbox", async || rig.query_number("select count(*) from outbox").await == 0).await;
    for table in ["restored_run", "restored_topic", "restored_event"] {
        let rows = rig.query_number(&format!("select count(*) from {table}")).await;
        assert_eq!(rows, 0, "{table}: the command is complete");
    }
}

/// RULE-EVT-048: an account is published above both its own count and the published one. For a lost
/// account a tombstone is published.
#[tokio::test]
async fn restored_rows_are_raised_and_lost_rows_are_ended() {
    let rig = Rig::new().await;
    let _worker = rig.start_worker().await;
    for _ in 0..3 {
        rig.step().await;
    }
    republish(&rig).await;
    let keys = rig.keys().await;
    let back = format!(
        "update account set n = 1 where key = '{}'; update account set n = 7 where key = '{}'; \
         delete from account where key = '{}'",
        keys[0], keys[1], keys[2]
    );
    rig.db.batch_execute(&back).await.unwrap();

    restore(&rig).await;

    let values = compacted(&rig);
    assert_eq!(values[&keys[0]], Some(json!({"Key": keys[0], "N": 4})), "above the published 3");
    assert_eq!(values[&keys[1]], Some(json!({"Key": keys[1], "N": 8})), "above the row, which is ahead");
    assert_eq!(values[&keys[2]], None, "a tombstone");
    let raised = format!("select n from account where key = '{}'", keys[0]);
    assert_eq!(rig.query_number(&raised).await, 4);
}

/// RULE-EVT-048: an interrupted command continues with the remaining keys, and does not read the
/// topics again.
#[tokio::test]
async fn interrupted_command_continues_with_the_remaining_keys() {
    let rig = Rig::new().await;
    let _worker = rig.start_worker().await;
    rig.step().await;
    republish(&rig).await;
    let keys = rig.keys().await;
    let left = format!(
        "insert into restored_run (since) values ('{SINCE}'); insert into restored_topic values ('{UPSERTED}'); \
         insert into restored_event values ('Account', '{}', '{UPSERTED}', 5, '{{}}')",
        keys[3]
    );
    rig.db.batch_execute(&left).await.unwrap();

    restore(&rig).await;

    let values = compacted(&rig);
    for key in &keys {
        let n = if *key == keys[3] { 6 } else { 1 };
        assert_eq!(values[key], Some(json!({"Key": key, "N": n})));
    }
    restore(&rig).await;
    assert_eq!(
        compacted(&rig)[&keys[0]],
        Some(json!({"Key": keys[0], "N": 2})),
        "a new run reads the topics"
    );
}

/// RULE-EVT-048: a second run at the same time ends at once, and names the session of the first
/// one. A dry run counts as a run.
#[tokio::test]
async fn second_run_ends_and_names_the_first_one() {
    let rig = Rig::new().await;
    // Without a broker, the first run waits with the lock.
    let mut first = rig.command();
    first.args(["restored", "--since", SINCE]).env("KAFKA_BROKERS", "127.0.0.1:1");
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let session = "select coalesce(max(pid), 0)::bigint from pg_locks where locktype = 'advisory' \
        and database = (select oid from pg_database where datname = current_database())";
    eventually("the lock", async || rig.query_number(session).await > 0).await;
    let holder =
        format!("another run of this command has the lock: session {} of ", rig.query_number(session).await);

    for arguments in [&["restored"][..], &["restored", "--since", SINCE, "--dry-run"]] {
        let second = rig.run_command(arguments);
        let error = String::from_utf8_lossy(&second.stderr).into_owned();
        assert!(!second.status.success() && error.contains(&holder), "{second:?}");
        assert!(second.stdout.is_empty(), "{second:?}");
    }

    first.kill().unwrap();
    first.wait().unwrap();
    eventually("the release of the lock", async || rig.run_command(&["restored"]).status.success()).await;
}
