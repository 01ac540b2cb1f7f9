//! Failed jobs and their metrics.

use std::sync::Arc;
use std::time::Duration;

use jobs::Jobs;
use runtime::Process;
use tokio::sync::Notify;

use crate::{KIND, Shop, TIMEOUT, now, run_once};

/// RULE-ALL-036: a failed job is retried later and delays no other.
#[tokio::test]
async fn failed_or_panicked_job_is_retried_and_delays_no_other() {
    let shop = Shop::new().await;
    let (db, process) = (shop.db(), Process::new());
    let jobs = Jobs::new(db.clone()).due(KIND, move |job| {
        let db = db.clone();
        async move {
            assert!(job.key != "panics" || job.attempts > 1, "panic of the test");
            anyhow::ensure!(job.key != "fails" || job.attempts > 2, "not yet");
            run_once(&db, &job).await
        }
    });
    jobs.start(&process);
    shop.schedule(&["panics", "fails", "works"], now()).await;
    shop.wait_for_number("select count(*) from done", 3).await;
    let order =
        shop.sql.query_one("select string_agg(job || attempts, ' ' order by id) from done", &[]).await;
    assert_eq!(order.unwrap().get::<_, String>(0), "works1 panics2 fails3");
    let metrics = process.metrics().encode().unwrap();
    assert!(metrics.contains("jobs_done_total{kind=\"ring\"} 3"), "{metrics}");
    assert!(metrics.contains("jobs_failed_total{kind=\"ring\"} 3"), "{metrics}");
}

/// RULE-ALL-036: metrics show a job that always fails and a job that no worker starts.
#[tokio::test]
async fn waiting_and_failing_jobs_appear_in_metrics() {
    const LATE_JOB: &str =
        "insert into job (kind, key, due_at) values ('ring', 'late', now() - interval '1 hour')";
    let shop = Shop::new().await;
    shop.sql.batch_execute(LATE_JOB).await.unwrap();
    shop.sql.batch_execute("update job set attempts = 11").await.unwrap();
    // A replica that already runs eight jobs does not start the late job.
    let gate = Arc::new(Notify::new());
    let process = Process::new();
    let held = gate.clone();
    shop.schedule(&["1", "2", "3", "4", "5", "6", "7", "8"], now() - Duration::from_hours(2)).await;
    let jobs = Jobs::new(shop.db()).due(KIND, move |_| {
        let gate = held.clone();
        async move {
            gate.notified().await;
            anyhow::bail!("not yet")
        }
    });
    jobs.start(&process);
    let value = |name: &str| {
        let metrics = process.metrics().encode().unwrap();
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).unwrap_or_default()
    };
    let wait = async {
        while !(value("jobs_oldest_seconds{kind=\"ring\"}") >= 3_600.0
            && value("jobs_attempts_max{kind=\"ring\"}") >= 11.0)
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, wait).await.is_ok(), "{}", process.metrics().encode().unwrap());
}
