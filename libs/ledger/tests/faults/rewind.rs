//! Consumers that go back: their database did, or what they have built is built anew.

use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::rig::{Rig, eventually};

/// What a consumer has in its database.
const BACKUP: &str = "create table inbox_then as table inbox; create table applied_then as table applied";
const RESTORE: &str = "truncate inbox, applied; insert into inbox table inbox_then; \
    insert into applied overriding system value table applied_then";

/// Does a command, again where the broker does not know yet that the last replica has left.
async fn done(rig: &Rig, command: &[&str]) {
    let mut said = rig.operate(command);
    for _ in 0..20 {
        if said.status.success() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        said = rig.operate(command);
    }
    panic!("{said:?}");
}

/// The embedded broker knows no times.
#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn a_service_whose_database_went_back_takes_again_what_it_has_lost() {
    let rig = Rig::new().await;
    let worker = rig.work().await;
    rig.step().await;
    rig.applied(8).await;
    rig.step().await;
    rig.applied(16).await;
    rig.db.batch_execute(BACKUP).await.unwrap();
    let then: OffsetDateTime = std::time::SystemTime::now().into();
    let then = (then - Duration::from_mins(1)).format(&Rfc3339).unwrap();
    for _ in 0..3 {
        rig.step().await;
    }
    rig.applied(40).await;
    let refused = rig.operate(&["consumers", "rewind", "--to", &then]);
    assert!(!refused.status.success(), "while it runs: {refused:?}");
    assert!(worker.terminate().await.success());
    rig.db.batch_execute(RESTORE).await.unwrap();

    done(&rig, &["consumers", "rewind", "--to", &then]).await;
    let worker = rig.work().await;
    rig.applied(40).await;
    assert_eq!(rig.miscounted().await, 0);
    assert!(worker.metric("consumer_duplicates_total").await >= 15.0, "what it had is dropped as seen");
}

/// The embedded broker does not say when a group is empty.
#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn a_consumer_that_is_built_anew_takes_all_that_there_is() {
    let rig = Rig::new().await;
    let worker = rig.work().await;
    for _ in 0..3 {
        rig.step().await;
    }
    rig.applied(24).await;
    let refused = rig.operate(&["consumers", "rebuild", "ledger.ledger"]);
    assert!(!refused.status.success(), "while it runs: {refused:?}");
    assert!(rig.number("select count(*) from inbox").await >= 8, "nothing was forgotten");
    assert!(worker.terminate().await.success());
    rig.db.batch_execute("truncate applied").await.unwrap();

    // A broker may remember for a while who has left.
    done(&rig, &["consumers", "rebuild", "ledger.ledger"]).await;
    assert!(!rig.operate(&["consumers", "rebuild", "ledger.nobody"]).status.success());
    let _worker = rig.work().await;
    eventually("all of it", async || rig.number("select count(*) from applied").await == 24).await;
    assert_eq!(rig.miscounted().await, 0);
}
