//! Periodic jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use jobs::Jobs;
use runtime::Process;

use crate::{Shop, record};

/// RULE-ALL-036: a periodic job runs in one replica at a time.
#[tokio::test]
async fn periodic_job_repeats_in_one_replica_at_a_time() {
    let shop = Shop::new().await;
    let running = Arc::new(AtomicUsize::new(0));
    let overlapped = Arc::new(AtomicBool::new(false));
    let mut processes = Vec::new();
    for _ in 0..3 {
        let (db, process) = (shop.db(), Process::new());
        let (running, overlapped) = (running.clone(), overlapped.clone());
        let jobs = Jobs::new(db.clone()).periodic("audit", Duration::from_millis(50), move |job| {
            let (db, running, overlapped) = (db.clone(), running.clone(), overlapped.clone());
            async move {
                overlapped.fetch_or(running.fetch_add(1, Ordering::SeqCst) > 0, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(20)).await;
                let recorded = db.tx(async |tx| record(tx, &job).await).await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(recorded?)
            }
        });
        jobs.start(&process);
        processes.push(process);
    }
    shop.wait_for_number("select (count(*) > 10)::int::bigint from done", 1).await;
    assert!(!overlapped.load(Ordering::SeqCst), "two replicas ran the job at the same time");
    assert_eq!(shop.query_number("select count(*) from job where kind = 'audit' and key = ''").await, 1);
}

/// RULE-ALL-036: a starting replica does not claim a running periodic job. Simulates a rollout
/// during a run that takes longer than the job's period.
#[tokio::test]
async fn starting_replica_does_not_claim_running_periodic_job() {
    let shop = Shop::new().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let mut processes = Vec::new();
    for _ in 0..3 {
        let (process, counter) = (Process::new(), runs.clone());
        let jobs = Jobs::new(shop.db()).periodic("audit", Duration::from_millis(10), move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            std::future::pending()
        });
        jobs.start(&process);
        processes.push(process);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
