//! The database of one service: a pool whose connections live in the service's schema,
//! transactions that only the edges can open, and migrations.

mod cached;
mod conn;
mod error;
mod json;
mod language;
mod lookups;
mod migrate;
mod tx;

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{Manager as _, Object, Pool, Timeouts};
use runtime::{Env, Phase, Process};

pub use cached::{Cached, Limited};
pub use conn::Conn;
pub use error::Error;
pub use json::Json;
pub use lookups::{Lookup, Lookups};
pub use migrate::migrate;
pub use tx::{Committed, Tx, Work, close};

use tx::Commits;

/// A connection taken from the pool for reads that need no transaction.
pub type PooledConn = Object<conn::Connector>;

/// Where the database is and how much of it a replica may use.
#[derive(Clone)]
pub struct Config {
    url: String,
    schema: &'static str,
    pool_size: usize,
    wait: Duration,
    statement_timeout_ms: u32,
    /// Whether a statement that is prepared once is planned once, too.
    keeps_plans: bool,
}

impl Config {
    /// The database of the service that keeps its tables in `schema`.
    pub fn read(env: &mut Env, schema: &'static str) -> Option<Self> {
        let url = env.require("DATABASE_URL", "PostgreSQL, as in postgres://user:password@host/database");
        let pool_size = env.or("DATABASE_POOL_SIZE", 16, "connections in the pool of a replica");
        let wait_ms = env.or(
            "DATABASE_WAIT_MS",
            2_000,
            "nobody waits longer for a connection, or for a look-up, in milliseconds",
        );
        let statement_timeout_ms = env.or(
            "DATABASE_STATEMENT_TIMEOUT_MS",
            5_000,
            "a statement is cut off after so many milliseconds",
        );
        Some(Self {
            url: url?,
            schema,
            pool_size: pool_size?,
            wait: Duration::from_millis(wait_ms?),
            statement_timeout_ms: statement_timeout_ms?,
            keeps_plans: false,
        })
    }

    /// The URL with the settings that every connection starts with.
    ///
    /// A server that vanished without a word is noticed in some 15 s: by its silence to probes, or to what was sent.
    /// PostgreSQL in its turn looks twice a second whether whoever waits for a statement is still there. It compiles none:
    /// that takes a fifth of a second, which is longer than any of ours does.
    fn connection_url(&self) -> String {
        let separator = if self.url.contains('?') { '&' } else { '?' };
        format!(
            "{}{separator}application_name={schema}&connect_timeout=3\
             &tcp_user_timeout=10&keepalives_idle=5&keepalives_interval=3&keepalives_retries=3\
             &options=-csearch_path%3D{schema}%20-cstatement_timeout%3D{timeout}\
             %20-cidle_in_transaction_session_timeout%3D30000%20-cjit%3Doff%20-cclient_connection_check_interval%3D500\
             %20-cplan_cache_mode%3D{plans}",
            self.url,
            schema = self.schema,
            timeout = self.statement_timeout_ms,
            plans = if self.keeps_plans { "force_generic_plan" } else { "auto" },
        )
    }

    /// How long an answer is waited for: longer than PostgreSQL takes to cut the statement off by itself.
    fn patience(&self) -> Duration {
        Duration::from_millis(self.statement_timeout_ms.into()) + CUTTING_OFF
    }
}

/// A connection is made in less, or not at all.
const CONNECTING: Duration = Duration::from_secs(5);

/// PostgreSQL tells of a statement that it has cut off in less.
const CUTTING_OFF: Duration = Duration::from_secs(2);

/// When so many wait for each connection, who comes now waits as long as so many statements take: tens of
/// milliseconds. A pause of the database is bridged by those who wait already.
const LONG_QUEUE: usize = 16;

/// The database. Cloning shares the pool.
#[derive(Clone)]
pub struct Db {
    pool: Pool<conn::Connector>,
    commits: Arc<Commits>,
    language: Arc<str>,
    keeps_plans: bool,
}

impl Db {
    /// Makes the pool; connections are opened when first needed.
    ///
    /// # Errors
    /// A pool size that cannot be used.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        let wait = Some(config.wait);
        let pool = Pool::builder(conn::Connector(config.clone()))
            .max_size(config.pool_size)
            .runtime(deadpool::Runtime::Tokio1)
            .timeouts(Timeouts { wait, create: Some(CONNECTING), recycle: wait })
            .build()?;
        Ok(Self { pool, commits: Arc::default(), language: Arc::from("en"), keeps_plans: false })
    }

    /// Has its transactions know the service's default language: that of words which are written once, whoever reads them.
    #[must_use]
    pub fn speaking(self, language: &str) -> Self {
        Self { language: Arc::from(language), ..self }
    }

    /// Has what is prepared once in its transactions planned once, too: for statements whose plan is the same whatever
    /// their values, by a key or an index each, that are run so often that to plan them is what they cost.
    #[must_use]
    pub fn keeping_plans(self) -> Self {
        Self { keeps_plans: true, ..self }
    }

    /// A connection for reads; each statement stands for itself.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when none can be had in time.
    pub async fn conn(&self) -> Result<PooledConn, Error> {
        self.pool.get().await.map_err(Error::from)
    }

    /// A connection of the caller's own, beside the pool.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there is none.
    pub async fn connect(&self) -> Result<Conn, Error> {
        let made = tokio::time::timeout(CONNECTING, self.pool.manager().create()).await;
        let made = made.map_err(|_| Error::Unavailable("no connection in time".to_owned()))?;
        made.map_err(|error| Error::Unavailable(error.to_string()))
    }

    /// Whether so many wait for a connection that new work should not be begun. What was begun, readiness and
    /// what runs in the background still wait for one.
    pub fn is_crowded(&self) -> bool {
        let pool = self.pool.status();
        pool.waiting >= LONG_QUEUE * pool.max_size
    }

    /// Runs `work` in one transaction: all that it wrote is kept if it answers `Ok`, nothing otherwise.
    ///
    /// # Errors
    /// Those of `work`, and [`Error`] when the transaction cannot begin or commit.
    pub async fn tx<T, E>(&self, work: impl AsyncFnOnce(&mut Tx) -> Result<T, E>) -> Result<T, E>
    where
        E: From<Error>,
    {
        let mut tx = Tx::begin(self.conn().await?, self.language.clone(), self.keeps_plans)?;
        match work(&mut tx).await {
            Ok(value) => {
                tx.commit(&self.commits).await?;
                Ok(value)
            }
            Err(error) => {
                tx.roll_back().await;
                Err(error)
            }
        }
    }

    /// Wakes after commits that [announced](Tx::announce) such work.
    pub fn committed(&self, work: Work) -> Committed {
        self.commits.wait_for(work)
    }

    /// Makes readiness depend on the database, and ends a process whose database speaks another language than
    /// English, which its errors are told apart by.
    pub fn require(&self, process: &Process) {
        let db = self.clone();
        process.spawn(Phase::Work, "database's language", |ending| language::require_english(db, ending));
        let db = self.clone();
        process.require("database", move || {
            let db = db.clone();
            async move { db.ping().await.map_err(|error| error.to_string()) }
        });
    }

    async fn ping(&self) -> Result<(), Error> {
        use diesel_async::RunQueryDsl;
        let mut conn = self.conn().await?;
        diesel::sql_query("select 1").execute(&mut conn).await?;
        Ok(())
    }
}
