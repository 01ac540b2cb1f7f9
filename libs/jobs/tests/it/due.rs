//! Scheduling, rescheduling and cancelling, and when a job runs.

use std::time::Duration;

use db::Error;
use jobs::Jobs;
use runtime::Process;

use crate::{KIND, Shop, now, record, run_once, start_gated_replica, start_replica};

/// RULE-ALL-035: a job runs once, in one of the racing replicas.
#[tokio::test]
async fn job_runs_once_among_racing_replicas() {
    let shop = Shop::new().await;
    let replicas: Vec<Process> = (0..4).map(|_| start_replica(&shop)).collect();
    let keys: Vec<String> = (0..200).map(|key| key.to_string()).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    shop.schedule(&keys, now()).await;
    shop.wait_for_number("select count(*) from job", 0).await;
    assert_eq!(shop.query_number("select count(*) from done").await, 200);
    assert_eq!(shop.query_number("select count(distinct job) from done").await, 200);
    drop(replicas);
}

/// RULE-ALL-035: a job runs at its time.
#[tokio::test]
async fn job_runs_at_its_due_time() {
    let shop = Shop::new().await;
    let _replicas = [start_replica(&shop), start_replica(&shop)];
    let due_at = now() + Duration::from_millis(1500);
    shop.schedule(&["a", "b"], due_at).await;
    shop.wait_for_number("select count(*) from done", 2).await;
    let first = shop.query_timestamp("select min(at) from done").await;
    let last = shop.query_timestamp("select max(at) from done").await;
    assert!(first >= due_at, "{first} is before {due_at}");
    // A job runs within a second of its due time. The rest allows for a busy machine.
    assert!(last < due_at + Duration::from_secs(10), "{last} is late for {due_at}");
}

/// RULE-ALL-035: a commit wakes the worker of its job. Each of sixty jobs schedules the next one.
/// Without the wake-up, each job would wait up to a second for the next poll.
#[tokio::test]
async fn commit_wakes_the_worker_of_its_job() {
    let shop = Shop::new().await;
    let (db, process) = (shop.db(), Process::new());
    let job_db = db.clone();
    let jobs = Jobs::new(db.clone()).due(KIND, move |job| {
        let db = job_db.clone();
        async move {
            let next = job.key.parse::<i32>()? + 1;
            let result: Result<(), Error> = db
                .tx(async |tx| {
                    record(tx, &job).await?;
                    jobs::schedule(tx, KIND, (next <= 60).then_some(next), now()).await?;
                    job.complete(tx).await
                })
                .await;
            Ok(result?)
        }
    });
    jobs.start(&process);
    let started_at = tokio::time::Instant::now();
    db.tx(async |tx| jobs::schedule(tx, KIND, [1], now()).await).await.unwrap();
    shop.wait_for_number("select count(*) from done", 60).await;
    assert!(started_at.elapsed() < Duration::from_secs(30), "{:?}", started_at.elapsed());
}

/// RULE-ALL-035: a job that another replica scheduled starts after up to `poll_interval`. A commit
/// in this replica wakes the worker earlier.
#[tokio::test]
async fn job_scheduled_by_another_replica_waits_for_the_poll_interval() {
    let shop = Shop::new().await;
    let (db, process) = (shop.db(), Process::new());
    let job_db = db.clone();
    let jobs = Jobs::new(db.clone()).due_with_poll_interval(KIND, Duration::from_hours(1), move |job| {
        let db = job_db.clone();
        async move { run_once(&db, &job).await }
    });
    jobs.start(&process);
    db.tx(async |tx| jobs::schedule(tx, KIND, ["own"], now()).await).await.unwrap();
    shop.wait_for_number("select count(*) from done", 1).await;
    shop.schedule(&["other"], now()).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(shop.query_number("select count(*) from done").await, 1, "the job ran before the next poll");
    db.tx(async |tx| jobs::schedule(tx, KIND, ["own"], now()).await).await.unwrap();
    shop.wait_for_number("select count(*) from done", 3).await;
}

/// RULE-ALL-035: a job is stored with the change that schedules it or not at all.
#[tokio::test]
async fn scheduled_job_is_rolled_back_with_its_transaction() {
    let shop = Shop::new().await;
    let db = shop.db();
    let result: Result<(), Error> = db
        .tx(async |tx| {
            jobs::schedule(tx, KIND, ["a"], now()).await?;
            Err(Error::Unavailable("rolled back".to_owned()))
        })
        .await;
    result.unwrap_err();
    assert_eq!(shop.query_number("select count(*) from job").await, 0);
}

/// RULE-ALL-035: a scheduled job can be rescheduled or cancelled.
#[tokio::test]
async fn scheduled_job_can_be_rescheduled_or_cancelled() {
    let shop = Shop::new().await;
    let db = shop.db();
    shop.schedule(&["sooner", "never", "later"], now() + Duration::from_hours(1)).await;
    shop.schedule(&["later", "never"], now() + Duration::from_secs(2)).await;
    shop.schedule(&["sooner", "sooner"], now()).await;
    db.tx(async |tx| jobs::cancel(tx, KIND, "never").await).await.unwrap();
    assert_eq!(shop.query_number("select count(*) from job").await, 2);
    let _replica = start_replica(&shop);
    shop.wait_for_number("select count(*) from done where job = 'later'", 1).await;
    assert_eq!(shop.query_number("select count(*) from done where job = 'sooner'").await, 1);
    assert_eq!(shop.query_number("select count(*) from done").await, 2);
}

/// RULE-ALL-035: the run of a job that is rescheduled or cancelled while it runs is rolled back.
#[tokio::test]
async fn rescheduled_or_cancelled_job_rolls_back_its_current_run() {
    let shop = Shop::new().await;
    let (_process, started, gate) = start_gated_replica(&shop);
    shop.schedule(&["again"], now()).await;
    started.notified().await;
    shop.schedule(&["again"], now() + Duration::from_hours(1)).await;
    gate.notify_one();
    shop.schedule(&["cancelled"], now()).await;
    started.notified().await;
    shop.db().tx(async |tx| jobs::cancel(tx, KIND, "cancelled").await).await.unwrap();
    gate.notify_one();
    // The last job runs after both and completes.
    shop.schedule(&["last"], now()).await;
    started.notified().await;
    gate.notify_one();
    shop.wait_for_number("select count(*) from done where job = 'last'", 1).await;
    assert_eq!(shop.query_number("select count(*) from done").await, 1);
    let waiting = "select count(*) from job where key = 'again' and attempts = 0 and due_at > now() + interval '50 minutes'";
    assert_eq!(shop.query_number(waiting).await, 1);
}
