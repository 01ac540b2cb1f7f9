//! The database of one service: a pool whose connections live in the service's schema,
//! transactions that only the edges can open, and migrations.

mod cached;
mod error;
mod json;
mod lookups;
mod migrate;
mod tx;

use std::time::Duration;

use deadpool::managed::{Object, Timeouts};
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod};
use runtime::{Env, Process};

pub use cached::Cached;
pub use error::Error;
pub use json::Json;
pub use lookups::{Lookup, Lookups};
pub use migrate::migrate;
pub use tx::{Committed, Tx, close};

/// What queries run on: within a transaction (`tx.conn()`) or without (`db.conn()`).
pub type Conn = AsyncPgConnection;

/// A connection taken from the pool for reads that need no transaction.
pub type PooledConn = Object<AsyncDieselConnectionManager<AsyncPgConnection>>;

/// Where the database is and how much of it a replica may use.
#[derive(Clone)]
pub struct Config {
    url: String,
    schema: &'static str,
    pool_size: usize,
    statement_timeout_ms: u32,
}

impl Config {
    /// The database of the service that keeps its tables in `schema`.
    pub fn read(env: &mut Env, schema: &'static str) -> Option<Self> {
        let url = env.require("DATABASE_URL", "PostgreSQL, as in postgres://user:password@host/database");
        let pool_size = env.or("DATABASE_POOL_SIZE", 16, "connections in the pool of a replica");
        let statement_timeout_ms = env.or(
            "DATABASE_STATEMENT_TIMEOUT_MS",
            5_000,
            "a statement is cut off after so many milliseconds",
        );
        Some(Self { url: url?, schema, pool_size: pool_size?, statement_timeout_ms: statement_timeout_ms? })
    }

    /// The URL with the settings that every connection starts with.
    fn connection_url(&self) -> String {
        let separator = if self.url.contains('?') { '&' } else { '?' };
        format!(
            "{}{separator}application_name={schema}&connect_timeout=3&tcp_user_timeout=10&options=-csearch_path%3D{schema}\
             %20-cstatement_timeout%3D{timeout}%20-cidle_in_transaction_session_timeout%3D30000",
            self.url,
            schema = self.schema,
            timeout = self.statement_timeout_ms,
        )
    }
}

/// Nobody waits longer for a connection, or for a lookup.
const PATIENCE: Duration = Duration::from_secs(2);

/// When so many wait for each connection, who comes now waits as long as so many statements take: tens of
/// milliseconds. A pause of the database is bridged by those who wait already.
const LONG_QUEUE: usize = 16;

/// The database. Cloning shares the pool.
#[derive(Clone)]
pub struct Db {
    pool: Pool<AsyncPgConnection>,
    committed: Committed,
}

impl Db {
    /// Makes the pool; connections are opened when first needed.
    ///
    /// # Errors
    /// A pool size that cannot be used.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        let mut manager = ManagerConfig::default();
        // Testing a connection at each check-out costs a round trip; a broken one is an error to handle.
        manager.recycling_method = RecyclingMethod::Fast;
        let manager = AsyncDieselConnectionManager::new_with_config(config.connection_url(), manager);
        let wait = Some(PATIENCE);
        let pool = Pool::builder(manager)
            .max_size(config.pool_size)
            .runtime(deadpool::Runtime::Tokio1)
            .timeouts(Timeouts { wait, create: Some(Duration::from_secs(5)), recycle: wait })
            .build()?;
        Ok(Self { pool, committed: Committed::default() })
    }

    /// A connection for reads; each statement stands for itself.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when none can be had in time.
    pub async fn conn(&self) -> Result<PooledConn, Error> {
        self.pool.get().await.map_err(Error::from)
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
        let mut tx = Tx::begin(self.conn().await?)?;
        match work(&mut tx).await {
            Ok(value) => {
                tx.commit(&self.committed).await?;
                Ok(value)
            }
            Err(error) => {
                tx.roll_back().await;
                Err(error)
            }
        }
    }

    /// Wakes after commits that [announced](Tx::announce) something.
    pub fn committed(&self) -> Committed {
        self.committed.clone()
    }

    /// Makes readiness depend on the database.
    pub fn require(&self, process: &Process) {
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
