//! Growth of a topic to more partitions, which keeps the order of each key.

use std::process::{Child, Stdio};
use std::time::Duration;

use crate::kafka::PARTITIONS;
use crate::replica::Replica;
use crate::rig::{COUNTED, Rig, eventually, stream_of};

const GROWN: i32 = PARTITIONS * 2 + 1;
/// Longer than an interrupted relay session needs to end.
const HOLD_TIME: Duration = Duration::from_secs(6);

/// Starts the command that grows the topic of counts.
fn start_growth(rig: &Rig) -> Child {
    let mut command = rig.command();
    command.args(["topics", "grow", COUNTED, "--partitions", &GROWN.to_string()]);
    command.args(["--groups", &rig.group("ledger.ledger")]);
    command.stdout(Stdio::null()).spawn().unwrap()
}

async fn wait_for_success(mut growth: Child) {
    let mut status = None;
    eventually("the end of the command", async || {
        status = growth.try_wait().unwrap();
        status.is_some()
    })
    .await;
    assert!(status.unwrap().success());
}

/// Returns the partition of each key.
async fn partitions(rig: &Rig) -> Vec<Option<i32>> {
    rig.keys().await.iter().map(|key| rig.log.partition(&stream_of(key))).collect()
}

/// Waits until `count` more changes have been committed.
async fn wait_until_written(rig: &Rig, count: i64) {
    let committed = rig.query_number("select sum(n)::bigint from account").await;
    rig.wait_until_committed(committed + count).await;
}

/// Starts a writer. It pauses long enough between two steps that consumers keep up.
async fn start_writer(rig: &Rig) -> Replica {
    rig.start("serve", &[("LEDGER_WRITERS", "4"), ("LEDGER_PAUSE_MS", "20")]).await
}

/// RULE-EVT-049: while writers run, a topic gets more partitions and no event of a key is lost or
/// applied out of order. The topic grows only after its consumers have applied the earlier events.
#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn growing_topic_keeps_the_order_of_each_key() {
    let rig = Rig::with_nodes(3).await;
    let _workers = [rig.start_worker().await, rig.start_worker().await];
    let writer = start_writer(&rig).await;
    rig.wait_until_applied(200).await;
    let before = partitions(&rig).await;
    // Consumers wait for this lock, so the partitions keep a backlog.
    let applied = rig.lock("applied").await;
    wait_until_written(&rig, 100).await;

    let growth = start_growth(&rig);
    tokio::time::sleep(HOLD_TIME).await;
    assert_eq!(rig.broker.partitions(COUNTED).await, PARTITIONS, "the topic grew behind waiting events");
    applied.release().await;
    wait_for_success(growth).await;

    assert_eq!(rig.broker.partitions(COUNTED).await, GROWN);
    rig.wait_until_read().await;
    rig.log.follow_new_partitions(COUNTED).unwrap();
    wait_until_written(&rig, 300).await;
    assert!(writer.terminate().await.success());
    rig.expect_no_faults().await;
    assert_ne!(partitions(&rig).await, before, "no key has moved");
}

/// RULE-EVT-049: an interrupted growth holds only its topic, is visible, and continues with the
/// next run. Before the topic has grown, it can be released instead.
#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn interrupted_growth_holds_its_topic_until_the_next_run() {
    let rig = Rig::new().await;
    let worker = rig.start_worker().await;
    let writer = rig.start("serve", &[("LEDGER_WRITERS", "2"), ("LEDGER_REMARKERS", "2")]).await;
    rig.wait_until_applied(50).await;
    let interrupt = async || {
        let applied = rig.lock("applied").await;
        wait_until_written(&rig, 20).await;
        let mut growth = start_growth(&rig);
        eventually("a held topic", async || worker.metric("outbox_held_topics").await > 0.0).await;
        let second = start_growth(&rig).wait().unwrap();
        assert!(!second.success(), "two runs at once");
        growth.kill().unwrap();
        growth.wait().unwrap();
        applied.release().await;
    };

    interrupt().await;
    let remark = "select coalesce(max(\"offset\"), 0) from inbox where topic like '%remarked%'";
    let last = rig.query_number(remark).await;
    eventually("more remarks", async || rig.query_number(remark).await > last + 10).await;
    assert!(rig.run_command(&["topics", "release", COUNTED]).status.success());
    eventually("no held topic", async || worker.metric("outbox_held_topics").await == 0.0).await;
    assert_eq!(rig.broker.partitions(COUNTED).await, PARTITIONS);
    let applied = rig.query_number("select count(*) from applied").await;
    rig.wait_until_applied(applied + 20).await;

    interrupt().await;
    wait_for_success(start_growth(&rig)).await;
    wait_for_success(start_growth(&rig)).await;

    assert_eq!(rig.broker.partitions(COUNTED).await, GROWN);
    rig.wait_until_read().await;
    rig.log.follow_new_partitions(COUNTED).unwrap();
    wait_until_written(&rig, 100).await;
    assert!(writer.terminate().await.success());
    rig.expect_no_faults().await;
}

/// RULE-EVT-049: the command rejects a topic of another service and a smaller number of partitions,
/// and holds no topic.
#[tokio::test]
async fn impossible_growth_holds_no_topic() {
    let rig = Rig::new().await;
    for (topic, partitions, reason) in
        [("platform.crm.deal-created.v1", "24", "does not publish to"), (COUNTED, "2", "Kafka removes none")]
    {
        let refused = rig.run_command(&["topics", "grow", topic, "--partitions", partitions, "--groups", ""]);
        assert!(!refused.status.success());
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(error.contains(reason), "{error}");
    }
    let held = "select count(*) from outbox_lane where grows_from is not null";
    assert_eq!(rig.query_number(held).await, 0);
}
