//! Jobs on a real PostgreSQL, in one replica and in several.

#![expect(clippy::unwrap_used, reason = "a helper that fails ends its test")]

use std::sync::Arc;
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

mod due;
mod log;
mod periodic;
mod retries;
mod stop;

/// The kind of due jobs in these tests.
const KIND: &str = "ring";
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

    /// Returns the timestamp that a query selects.
    async fn query_timestamp(&self, query: &str) -> OffsetDateTime {
        let query = format!("select (extract(epoch from ({query})) * 1000000)::bigint");
        let micros = i128::from(self.query_number(&query).await);
        OffsetDateTime::from_unix_timestamp_nanos(micros * 1000).unwrap()
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
        let scheduled = db.tx(async |tx| jobs::schedule(tx, KIND, keys, due_at).await).await;
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

/// Starts a replica that runs the jobs of `KIND`.
fn start_replica(shop: &Shop) -> Process {
    let (db, process) = (shop.db(), Process::new());
    let jobs = Jobs::new(db.clone()).due(KIND, move |job| {
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
    let jobs = Jobs::new(db.clone()).due(KIND, move |job| {
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
