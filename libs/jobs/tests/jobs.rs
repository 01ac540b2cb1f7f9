//! Jobs on a real PostgreSQL, in one replica and in several.

#![expect(clippy::unwrap_used, reason = "a helper that fails ends its test")]

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use db::{Config, Db, Error, Tx};
use diesel::sql_types::{Integer, Text};
use diesel_async::RunQueryDsl;
use jobs::{AlreadyLogged, Job, Jobs};
use runtime::{Env, Process};
use testkit::database;
use time::OffsetDateTime;
use tokio::sync::Notify;
use tokio_postgres::Client;
use tracing_subscriber::fmt;

const RING: &str = "ring";
/// The time limit of a wait, long enough for the slowest machine.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A database whose jobs record their runs in the table `done`.
struct Shop {
    config: Config,
    /// The test's own connection.
    sql: Client,
}

impl Shop {
    async fn new() -> Self {
        let url = database::create().await.unwrap();
        let database_url = url.clone();
        let mut env = Env::new(move |name| (name == "DATABASE_URL").then(|| database_url.clone()));
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

    /// Returns the database handle of a new replica.
    fn db(&self) -> Db {
        Db::new(&self.config).unwrap()
    }

    async fn query_number(&self, query: &str) -> i64 {
        self.sql.query_one(query, &[]).await.unwrap().get(0)
    }

    async fn wait_for_number(&self, query: &str, expected: i64) {
        let wait = async {
            while self.query_number(query).await != expected {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(
            tokio::time::timeout(TIMEOUT, wait).await.is_ok(),
            "{query}: {}",
            self.query_number(query).await
        );
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

async fn record(tx: &mut Tx, job: &Job) -> Result<(), Error> {
    let insert = diesel::sql_query("insert into done (job, attempts) values ($1, $2)");
    insert.bind::<Text, _>(&job.key).bind::<Integer, _>(job.attempts).execute(tx.conn()).await?;
    Ok(())
}

/// Records the run in the transaction that completes the job.
async fn run_once(db: &Db, job: &Job) -> anyhow::Result<()> {
    let result: Result<(), Error> = db
        .tx(async |tx| {
            record(tx, job).await?;
            job.complete(tx).await
        })
        .await;
    Ok(result?)
}

/// Starts a replica that runs the jobs of `RING`.
fn start_replica(shop: &Shop) -> Process {
    let (db, process) = (shop.db(), Process::new());
    let jobs = Jobs::new(db.clone()).due(RING, move |job| {
        let db = db.clone();
        async move { run_once(&db, &job).await }
    });
    jobs.start(&process);
    process
}

/// Starts a replica whose jobs notify the first handle at their start and wait for the second.
fn start_gated_replica(shop: &Shop) -> (Process, Arc<Notify>, Arc<Notify>) {
    let (db, process) = (shop.db(), Process::new());
    let (started, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handles = (started.clone(), gate.clone());
    let jobs = Jobs::new(db.clone()).due(RING, move |job| {
        let (db, (started, gate)) = (db.clone(), handles.clone());
        async move {
            started.notify_one();
            gate.notified().await;
            run_once(&db, &job).await
        }
    });
    jobs.start(&process);
    (process, started, gate)
}

/// RULE-ALL-035: a job runs once over all replicas.
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
    let first = timestamp(&shop, "select min(at) from done").await;
    let last = timestamp(&shop, "select max(at) from done").await;
    assert!(first >= due_at, "{first} is before {due_at}");
    // A job runs within a second of its due time. The rest allows for a busy machine.
    assert!(last < due_at + Duration::from_secs(10), "{last} is late for {due_at}");
}

/// Returns the timestamp that a query selects.
async fn timestamp(shop: &Shop, query: &str) -> OffsetDateTime {
    let query = format!("select (extract(epoch from ({query})) * 1000000)::bigint");
    let micros = i128::from(shop.query_number(&query).await);
    OffsetDateTime::from_unix_timestamp_nanos(micros * 1000).unwrap()
}

/// RULE-ALL-035: a commit wakes the worker of its job. Each of sixty jobs schedules the next one.
/// Without wake-ups each would wait a second for the poll.
#[tokio::test]
async fn commit_wakes_the_worker_of_its_job() {
    let shop = Shop::new().await;
    let (db, process) = (shop.db(), Process::new());
    let job_db = db.clone();
    let jobs = Jobs::new(db.clone()).due(RING, move |job| {
        let db = job_db.clone();
        async move {
            let next = job.key.parse::<i32>()? + 1;
            let result: Result<(), Error> = db
                .tx(async |tx| {
                    record(tx, &job).await?;
                    jobs::schedule(tx, RING, (next <= 60).then_some(next), now()).await?;
                    job.complete(tx).await
                })
                .await;
            Ok(result?)
        }
    });
    jobs.start(&process);
    let started_at = tokio::time::Instant::now();
    db.tx(async |tx| jobs::schedule(tx, RING, [1], now()).await).await.unwrap();
    shop.wait_for_number("select count(*) from done", 60).await;
    assert!(started_at.elapsed() < Duration::from_secs(30), "{:?}", started_at.elapsed());
}

/// RULE-ALL-035: jobs of other replicas wait for the poll interval. A commit of this replica wakes
/// the worker.
#[tokio::test]
async fn job_of_another_replica_waits_for_the_poll_interval() {
    let shop = Shop::new().await;
    let (db, process) = (shop.db(), Process::new());
    let job_db = db.clone();
    let jobs = Jobs::new(db.clone()).due_with_poll_interval(RING, Duration::from_hours(1), move |job| {
        let db = job_db.clone();
        async move { run_once(&db, &job).await }
    });
    jobs.start(&process);
    db.tx(async |tx| jobs::schedule(tx, RING, ["own"], now()).await).await.unwrap();
    shop.wait_for_number("select count(*) from done", 1).await;
    shop.schedule(&["other"], now()).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(shop.query_number("select count(*) from done").await, 1, "an hour has not passed");
    db.tx(async |tx| jobs::schedule(tx, RING, ["own"], now()).await).await.unwrap();
    shop.wait_for_number("select count(*) from done", 3).await;
}

/// RULE-ALL-035: a job is stored with the change that schedules it or not at all.
#[tokio::test]
async fn scheduled_job_is_rolled_back_with_its_transaction() {
    let shop = Shop::new().await;
    let db = shop.db();
    let result: Result<(), Error> = db
        .tx(async |tx| {
            jobs::schedule(tx, RING, ["a"], now()).await?;
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
    db.tx(async |tx| jobs::cancel(tx, RING, "never").await).await.unwrap();
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
    shop.db().tx(async |tx| jobs::cancel(tx, RING, "cancelled").await).await.unwrap();
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

/// RULE-ALL-036: a failed job is retried later and delays no other.
#[tokio::test]
async fn failed_or_panicked_job_is_retried_and_delays_no_other() {
    let shop = Shop::new().await;
    let (db, process) = (shop.db(), Process::new());
    let jobs = Jobs::new(db.clone()).due(RING, move |job| {
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

/// RULE-ALL-036: a job that always fails, and a job that no worker starts, are visible in metrics.
#[tokio::test]
async fn waiting_and_failing_jobs_are_metrics() {
    const UNKNOWN: &str =
        "insert into job (kind, key, due_at) values ('ring', 'late', now() - interval '1 hour')";
    let shop = Shop::new().await;
    shop.sql.batch_execute(UNKNOWN).await.unwrap();
    shop.sql.batch_execute("update job set attempts = 11").await.unwrap();
    // A replica whose eight places are taken does not run the late job.
    let gate = Arc::new(Notify::new());
    let process = Process::new();
    let held = gate.clone();
    shop.schedule(&["1", "2", "3", "4", "5", "6", "7", "8"], now() - Duration::from_hours(2)).await;
    let jobs = Jobs::new(shop.db()).due(RING, move |_| {
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

/// RULE-ALL-036: a job of several steps ends with its process, and another replica continues it at
/// once.
#[tokio::test]
async fn interrupted_job_is_continued_by_another_replica() {
    let shop = Shop::new().await;
    let (process, started) = (Process::new(), Arc::new(Notify::new()));
    let handle = started.clone();
    let jobs = Jobs::new(shop.db()).due(RING, move |job| {
        let started = handle.clone();
        async move {
            loop {
                started.notify_one();
                tokio::time::sleep(Duration::from_millis(10)).await;
                job.check_ending()?;
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
    assert!(!overlapped.swap(true, Ordering::SeqCst), "two replicas ran the job at the same time");
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
    assert_eq!(runs.swap(0, Ordering::SeqCst), 1);
}

/// The log of a test, with the fields of spans.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// RULE-ALL-037: no log line and no span has the key of a job, which may be the id of a user. All
/// lines of a job have the same short hash.
#[tokio::test]
async fn log_has_a_hash_instead_of_the_key() {
    const USER: &str = "5b0c1a52-4c1e-4d43-9d6e-0f6a1c1d2e3f";
    let log = Log::default();
    let writer = log.clone();
    let subscriber = fmt().with_ansi(false).with_max_level(tracing::Level::DEBUG);
    let _guard = tracing::subscriber::set_default(subscriber.with_writer(move || writer.clone()).finish());
    let shop = Shop::new().await;
    let (db, process) = (shop.db(), Process::new());
    let jobs = Jobs::new(db.clone()).due(RING, move |job| {
        let db = db.clone();
        async move {
            match job.attempts {
                1 => anyhow::bail!("not yet"),
                2 => Err(AlreadyLogged::wrap(anyhow::anyhow!("not yet"))),
                3 => {
                    let lost = diesel::sql_query("update job set run = null");
                    lost.execute(&mut db.conn().await?).await?;
                    run_once(&db, &job).await
                }
                _ => run_once(&db, &job).await,
            }
        }
    });
    jobs.start(&process);
    shop.schedule(&[USER], now()).await;
    shop.wait_for_number("select count(*) from done", 1).await;
    let text = log.text();
    assert!(!text.contains(USER), "{text}");
    let hash: String = shop
        .sql
        .query_one("select left(encode(sha256(convert_to($1, 'UTF8')), 'hex'), 16)", &[&USER])
        .await
        .unwrap()
        .get(0);
    let lines: Vec<_> = text.lines().filter(|line| line.contains("job failed, retrying")).collect();
    assert!(lines.len() >= 3 && lines.iter().all(|line| line.contains(&hash)), "{text}");
    assert!(text.contains("belongs to another run"), "{text}");
}
