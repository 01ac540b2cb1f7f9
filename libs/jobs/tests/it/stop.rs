//! Jobs of a replica that stops or is killed.

use std::sync::Arc;
use std::time::Duration;

use jobs::Jobs;
use runtime::Process;
use tokio::sync::Notify;

use crate::{KIND, Shop, now, start_gated_replica, start_replica};

/// RULE-ALL-036: a job of several steps ends with its process, and another replica continues it at
/// once.
#[tokio::test]
async fn interrupted_job_is_continued_by_another_replica() {
    let shop = Shop::new().await;
    let (process, started) = (Process::new(), Arc::new(Notify::new()));
    let handle = started.clone();
    let jobs = Jobs::new(shop.db()).due(KIND, move |job| {
        let started = handle.clone();
        async move {
            loop {
                started.notify_one();
                tokio::time::sleep(Duration::from_millis(10)).await;
                job.check_stopping()?;
            }
        }
    });
    jobs.start(&process);
    shop.schedule(&["long"], now()).await;
    started.notified().await;
    process.stop();
    process.finished().await.unwrap();
    let resumed =
        "select count(*) from job where attempts = 0 and run is null and due_at <= clock_timestamp()";
    assert_eq!(shop.query_number(resumed).await, 1);
    let metrics = process.metrics().encode().unwrap();
    assert!(metrics.contains("jobs_failed_total{kind=\"ring\"} 0"), "{metrics}");
    let _other = start_replica(&shop);
    shop.wait_for_number("select count(*) from done where attempts = 1", 1).await;
}

/// RULE-ALL-036: the jobs of a killed replica are resumed. The first replica has its own threads,
/// which end during the job as in a killed process.
#[tokio::test]
async fn job_of_killed_replica_is_claimed_by_another() {
    let shop = Shop::new().await;
    let killed = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (_process, started, _gate) = {
        let _runtime = killed.enter();
        start_gated_replica(&shop)
    };
    shop.schedule(&["a"], now()).await;
    started.notified().await;
    let _other = start_replica(&shop);
    // Longer than a lease.
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(shop.query_number("select count(*) from done").await, 0, "a live replica keeps its job");
    killed.shutdown_background();
    shop.wait_for_number("select count(*) from done where attempts = 2", 1).await;
    assert_eq!(shop.query_number("select count(*) from job").await, 0);
}

/// RULE-ALL-036: a stopping replica finishes its jobs.
#[tokio::test]
async fn stopping_replica_finishes_its_jobs_and_claims_no_more() {
    let shop = Shop::new().await;
    let (process, started, gate) = start_gated_replica(&shop);
    shop.schedule(&["running"], now()).await;
    started.notified().await;
    process.stop();
    shop.schedule(&["too late"], now()).await;
    let mut finished = std::pin::pin!(process.finished());
    let early = tokio::time::timeout(Duration::from_millis(100), &mut finished).await;
    assert!(early.is_err(), "the process did not wait for its job");
    gate.notify_one();
    finished.await.unwrap();
    assert_eq!(shop.query_number("select count(*) from done where job = 'running'").await, 1);
    assert_eq!(
        shop.query_number("select count(*) from job where key = 'too late' and attempts = 0").await,
        1
    );
}
