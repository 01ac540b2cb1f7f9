//! Jobs on a real PostgreSQL, in one replica and in several.

#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use db::{Config, Db, Error, Tx};
use diesel::sql_types::{Integer, Text};
use diesel_async::RunQueryDsl;
use jobs::{Job, Jobs};
use runtime::{Env, Process};
use testkit::database;
use time::OffsetDateTime;
use tokio::sync::Notify;
use tokio_postgres::Client;

const RING: &str = "ring";
/// More than enough on the slowest machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A database whose jobs write down that they were done, and the test's own view of it.
struct Shop {
    config: Config,
    sql: Client,
}

impl Shop {
    async fn new() -> Self {
        let url = database::create().await.unwrap();
        let of_pool = url.clone();
        let mut env = Env::new(move |name| (name == "DATABASE_URL").then(|| of_pool.clone()));
        let config = Config::read(&mut env, "shop");
        let config = env.finish(config).unwrap();
        db::migrate(&config, [jobs::MIGRATIONS]).await.unwrap();
        let sql = database::connect(&url).await.unwrap();
        sql.batch_execute(
            "set search_path = shop; create table done (id serial primary key, job text, attempts int, \
             at timestamptz not null default clock_timestamp())",
        )
        .await
        .unwrap();
        Self { config, sql }
    }

    /// What one replica has.
    fn db(&self) -> Db {
        Db::new(&self.config).unwrap()
    }

    async fn number(&self, query: &str) -> i64 {
        self.sql.query_one(query, &[]).await.unwrap().get(0)
    }

    async fn eventually(&self, query: &str, wanted: i64) {
        let wait = async {
            while self.number(query).await != wanted {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "{query}: {}", self.number(query).await);
    }

    async fn schedule(&self, keys: &[&str], due_at: OffsetDateTime) {
        let db = self.db();
        let scheduled = db.tx(async |tx| jobs::schedule(tx, RING, keys, due_at).await).await;
        scheduled.unwrap();
    }
}

fn now() -> OffsetDateTime {
    runtime::clock::now()
}

async fn write(tx: &mut Tx, job: &Job) -> Result<(), Error> {
    let insert = diesel::sql_query("insert into done (job, attempts) values ($1, $2)");
    insert.bind::<Text, _>(&job.key).bind::<Integer, _>(job.attempts).execute(tx.conn()).await?;
    Ok(())
}

/// Writes that the job was done, in the transaction in which it is.
async fn do_once(db: &Db, job: &Job) -> anyhow::Result<()> {
    let done: Result<(), Error> = db
        .tx(async |tx| {
            write(tx, job).await?;
            job.done(tx).await
        })
        .await;
    Ok(done?)
}

/// A replica that does the jobs of `RING`.
fn replica(shop: &Shop) -> Process {
    let (db, process) = (shop.db(), Process::new());
    let jobs = Jobs::new(db.clone()).due(RING, move |job| {
        let db = db.clone();
        async move { do_once(&db, &job).await }
    });
    jobs.start(&process);
    process
}

/// A replica whose jobs wait at a gate before they are done; each tells that it has begun.
fn held(shop: &Shop) -> (Process, Arc<Notify>, Arc<Notify>) {
    let (db, process) = (shop.db(), Process::new());
    let (begun, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let of_job = (begun.clone(), gate.clone());
    let jobs = Jobs::new(db.clone()).due(RING, move |job| {
        let (db, (begun, gate)) = (db.clone(), of_job.clone());
        async move {
            begun.notify_one();
            gate.notified().await;
            do_once(&db, &job).await
        }
    });
    jobs.start(&process);
    (process, begun, gate)
}

#[tokio::test]
async fn a_job_is_done_once_however_many_replicas_race_for_it() {
    let shop = Shop::new().await;
    let replicas: Vec<Process> = (0..4).map(|_| replica(&shop)).collect();
    let keys: Vec<String> = (0..200).map(|key| key.to_string()).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    shop.schedule(&keys, now()).await;
    shop.eventually("select count(*) from job", 0).await;
    assert_eq!(shop.number("select count(*) from done").await, 200);
    assert_eq!(shop.number("select count(distinct job) from done").await, 200);
    drop(replicas);
}

#[tokio::test]
async fn a_job_is_done_at_its_time_and_not_before() {
    let shop = Shop::new().await;
    let _replicas = [replica(&shop), replica(&shop)];
    let due_at = now() + Duration::from_millis(1500);
    shop.schedule(&["a", "b"], due_at).await;
    shop.eventually("select count(*) from done", 2).await;
    let first = at(&shop, "select min(at) from done").await;
    let last = at(&shop, "select max(at) from done").await;
    assert!(first >= due_at, "{first} is before {due_at}");
    // Two seconds by the rule; the rest is what a busy machine adds.
    assert!(last < due_at + Duration::from_secs(10), "{last} is long after {due_at}");
}

/// The point in time that a query answers.
async fn at(shop: &Shop, query: &str) -> OffsetDateTime {
    let query = format!("select (extract(epoch from ({query})) * 1000000)::bigint");
    let micros = i128::from(shop.number(&query).await);
    OffsetDateTime::from_unix_timestamp_nanos(micros * 1000).unwrap()
}

/// Each asks for the next: thirty looks of a second each would be too many.
#[tokio::test]
async fn a_commit_wakes_whoever_does_what_it_asks_for() {
    let shop = Shop::new().await;
    let (db, process) = (shop.db(), Process::new());
    let of_job = db.clone();
    let jobs = Jobs::new(db.clone()).due(RING, move |job| {
        let db = of_job.clone();
        async move {
            let next = job.key.parse::<i32>()? + 1;
            let done: Result<(), Error> = db
                .tx(async |tx| {
                    write(tx, &job).await?;
                    jobs::schedule(tx, RING, (next <= 60).then_some(next), now()).await?;
                    job.done(tx).await
                })
                .await;
            Ok(done?)
        }
    });
    jobs.start(&process);
    let begun = tokio::time::Instant::now();
    db.tx(async |tx| jobs::schedule(tx, RING, [1], now()).await).await.unwrap();
    shop.eventually("select count(*) from done", 60).await;
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

/// What others have left is found when it is looked for, as often as is said; one's own commit wakes all the same.
#[tokio::test]
async fn what_others_left_is_looked_for_as_often_as_is_said() {
    let shop = Shop::new().await;
    let (db, process) = (shop.db(), Process::new());
    let of_job = db.clone();
    let jobs = Jobs::new(db.clone()).due_within(RING, Duration::from_hours(1), move |job| {
        let db = of_job.clone();
        async move { do_once(&db, &job).await }
    });
    jobs.start(&process);
    db.tx(async |tx| jobs::schedule(tx, RING, ["own"], now()).await).await.unwrap();
    shop.eventually("select count(*) from done", 1).await;
    shop.schedule(&["foreign"], now()).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(shop.number("select count(*) from done").await, 1, "an hour has not passed");
    db.tx(async |tx| jobs::schedule(tx, RING, ["own"], now()).await).await.unwrap();
    shop.eventually("select count(*) from done", 3).await;
}

#[tokio::test]
async fn a_job_is_kept_or_dropped_with_the_change_that_asked_for_it() {
    let shop = Shop::new().await;
    let db = shop.db();
    let refused: Result<(), Error> = db
        .tx(async |tx| {
            jobs::schedule(tx, RING, ["a"], now()).await?;
            Err(Error::Unavailable("the change was refused".to_owned()))
        })
        .await;
    refused.unwrap_err();
    assert_eq!(shop.number("select count(*) from job").await, 0);
}

#[tokio::test]
async fn a_job_is_put_to_another_time_or_cancelled() {
    let shop = Shop::new().await;
    let db = shop.db();
    shop.schedule(&["sooner", "never", "later"], now() + Duration::from_hours(1)).await;
    shop.schedule(&["later", "never"], now() + Duration::from_secs(2)).await;
    shop.schedule(&["sooner", "sooner"], now()).await;
    db.tx(async |tx| jobs::cancel(tx, RING, "never").await).await.unwrap();
    assert_eq!(shop.number("select count(*) from job").await, 2);
    let _replica = replica(&shop);
    shop.eventually("select count(*) from done where job = 'later'", 1).await;
    assert_eq!(shop.number("select count(*) from done where job = 'sooner'").await, 1);
    assert_eq!(shop.number("select count(*) from done").await, 2);
}

#[tokio::test]
async fn what_is_scheduled_anew_or_cancelled_while_it_runs_keeps_nothing_of_that_run() {
    let shop = Shop::new().await;
    let (_process, begun, gate) = held(&shop);
    shop.schedule(&["anew"], now()).await;
    begun.notified().await;
    shop.schedule(&["anew"], now() + Duration::from_hours(1)).await;
    gate.notify_one();
    shop.schedule(&["cancelled"], now()).await;
    begun.notified().await;
    shop.db().tx(async |tx| jobs::cancel(tx, RING, "cancelled").await).await.unwrap();
    gate.notify_one();
    // Behind both, and done.
    shop.schedule(&["last"], now()).await;
    begun.notified().await;
    gate.notify_one();
    shop.eventually("select count(*) from done where job = 'last'", 1).await;
    assert_eq!(shop.number("select count(*) from done").await, 1);
    let waits = "select count(*) from job where key = 'anew' and attempts = 0 and due_at > now() + interval '50 minutes'";
    assert_eq!(shop.number(waits).await, 1);
}

#[tokio::test]
async fn a_job_that_fails_or_panics_is_tried_again_later_and_keeps_no_other() {
    let shop = Shop::new().await;
    let (db, process) = (shop.db(), Process::new());
    let jobs = Jobs::new(db.clone()).due(RING, move |job| {
        let db = db.clone();
        async move {
            assert!(job.key != "panics" || job.attempts > 1, "the test's own");
            anyhow::ensure!(job.key != "fails" || job.attempts > 2, "not yet");
            do_once(&db, &job).await
        }
    });
    jobs.start(&process);
    shop.schedule(&["panics", "fails", "works"], now()).await;
    shop.eventually("select count(*) from done", 3).await;
    let order =
        shop.sql.query_one("select string_agg(job || attempts, ' ' order by id) from done", &[]).await;
    assert_eq!(order.unwrap().get::<_, String>(0), "works1 panics2 fails3");
    let metrics = process.metrics().encode().unwrap();
    assert!(metrics.contains("jobs_done_total{kind=\"ring\"} 3"), "{metrics}");
    assert!(metrics.contains("jobs_failed_total{kind=\"ring\"} 3"), "{metrics}");
}

/// A replica on threads of its own, which end in the middle of the job as if it had been killed.
#[tokio::test]
async fn the_job_of_a_replica_that_was_killed_is_taken_up_by_another() {
    let shop = Shop::new().await;
    let killed = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (_process, begun, _gate) = {
        let _its_threads = killed.enter();
        held(&shop)
    };
    shop.schedule(&["a"], now()).await;
    begun.notified().await;
    let _other = replica(&shop);
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(shop.number("select count(*) from done").await, 0, "whoever lives keeps its job");
    killed.shutdown_background();
    shop.eventually("select count(*) from done where attempts = 2", 1).await;
    assert_eq!(shop.number("select count(*) from job").await, 0);
}

#[tokio::test]
async fn who_is_stopped_finishes_what_is_in_hand_and_begins_no_more() {
    let shop = Shop::new().await;
    let (process, begun, gate) = held(&shop);
    shop.schedule(&["in hand"], now()).await;
    begun.notified().await;
    process.stop();
    shop.schedule(&["too late"], now()).await;
    let mut finished = std::pin::pin!(process.finished());
    let early = tokio::time::timeout(Duration::from_millis(100), &mut finished).await;
    assert!(early.is_err(), "it did not wait for its job");
    gate.notify_one();
    finished.await.unwrap();
    assert_eq!(shop.number("select count(*) from done where job = 'in hand'").await, 1);
    assert_eq!(shop.number("select count(*) from job where key = 'too late' and attempts = 0").await, 1);
}

#[tokio::test]
async fn a_periodic_job_runs_again_and_again_in_one_replica_at_a_time() {
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
                let written = db.tx(async |tx| write(tx, &job).await).await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(written?)
            }
        });
        jobs.start(&process);
        processes.push(process);
    }
    shop.eventually("select (count(*) > 10)::int::bigint from done", 1).await;
    assert!(!overlapped.swap(true, Ordering::SeqCst), "two replicas ran it at once");
    assert_eq!(shop.number("select count(*) from job where kind = 'audit' and key = ''").await, 1);
}

/// As at a rollout, in the middle of a run that takes longer than the job's period.
#[tokio::test]
async fn a_replica_that_starts_takes_no_periodic_job_from_where_it_runs() {
    let shop = Shop::new().await;
    let begun = Arc::new(AtomicUsize::new(0));
    let mut processes = Vec::new();
    for _ in 0..3 {
        let (process, of_job) = (Process::new(), begun.clone());
        let jobs = Jobs::new(shop.db()).periodic("audit", Duration::from_millis(10), move |_| {
            of_job.fetch_add(1, Ordering::SeqCst);
            std::future::pending()
        });
        jobs.start(&process);
        processes.push(process);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(begun.swap(0, Ordering::SeqCst), 1);
}
