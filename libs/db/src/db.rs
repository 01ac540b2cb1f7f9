//! The database handle: a pool and the transactions on it.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{Manager as _, Pool, QueueMode, Timeouts};
use diesel_async::SimpleAsyncConnection;
use runtime::{Phase, Process};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::commit_signal::{CommitListener, CommitSignal, CommitSignals};
use crate::config::Config;
use crate::conn::{Conn, Connector, PooledConn};
use crate::error::Error;
use crate::locale;
use crate::tx::Tx;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of waiters per connection above which a new request would wait for tens of
/// milliseconds. A shorter queue forms in every brief pause of the database.
const MAX_WAITERS_PER_CONNECTION: usize = 16;

/// The time after which an unused connection of the pool is closed. After a burst, the pool would
/// otherwise keep connections that other replicas need.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

const LOCALE_CHECK_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The database of a service. Clones share the pool.
#[derive(Clone)]
pub struct Db {
    pool: Pool<Connector>,
    signals: Arc<CommitSignals>,
    language: Arc<str>,
    shared: Option<Arc<dyn Any + Send + Sync>>,
    has_generic_plans: bool,
}

impl Db {
    /// Creates the pool. Connections are opened at their first use.
    ///
    /// # Errors
    /// If the pool cannot be built.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        let wait = Some(config.wait_timeout);
        let pool = Pool::builder(Connector(config.clone()))
            .max_size(config.pool_size)
            // The connection that was used last has its plans in the processor's caches. In the
            // order of a queue, every connection would be used in turn, and none would become idle.
            .queue_mode(QueueMode::Lifo)
            .runtime(deadpool::Runtime::Tokio1)
            .timeouts(Timeouts { wait, create: Some(CONNECT_TIMEOUT), recycle: wait })
            .build()?;
        let language = Arc::from("en");
        Ok(Self { pool, signals: Arc::default(), language, shared: None, has_generic_plans: false })
    }

    /// Sets the default language of the service, for [`Tx::language`].
    #[must_use]
    pub fn with_language(self, language: &str) -> Self {
        Self { language: Arc::from(language), ..self }
    }

    /// Sets a value that every transaction shares, for [`Tx::shared`].
    #[must_use]
    pub fn with_shared(self, shared: Option<Arc<dyn Any + Send + Sync>>) -> Self {
        Self { shared, ..self }
    }

    /// Gives the prepared statements of this handle's transactions one plan for all parameters.
    ///
    /// Use this handle for frequent statements whose planning costs more than their execution. The
    /// best plan of such a statement must not depend on its parameters, as in a search by a key or
    /// by one index.
    #[must_use]
    pub fn with_generic_plans(self) -> Self {
        Self { has_generic_plans: true, ..self }
    }

    /// Takes a connection for reads. Each statement is a transaction of its own.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no connection becomes free in time.
    pub async fn conn(&self) -> Result<PooledConn, Error> {
        self.pool.get().await.map_err(Error::from)
    }

    /// Opens a connection outside the pool.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the connection cannot be established in time.
    pub async fn connect(&self) -> Result<Conn, Error> {
        let conn = tokio::time::timeout(CONNECT_TIMEOUT, self.pool.manager().create()).await;
        let conn = conn.map_err(|_| Error::Unavailable("no connection in time".to_owned()))?;
        conn.map_err(|error| Error::Unavailable(error.to_string()))
    }

    /// Returns true if the pool has too many waiters to admit a new request.
    ///
    /// Admitted requests, readiness checks and background work still wait for a connection.
    pub fn is_overloaded(&self) -> bool {
        let pool = self.pool.status();
        pool.waiting >= MAX_WAITERS_PER_CONNECTION * pool.max_size
    }

    /// Runs `work` in one transaction. Commits if it returns `Ok`, and rolls back otherwise.
    ///
    /// # Errors
    /// The errors of `work`, and [`Error`] if the transaction cannot begin or commit.
    /// [`Error::OutcomeUnknown`] if the response to the commit is lost.
    pub async fn tx<T, E>(&self, work: impl AsyncFnOnce(&mut Tx) -> Result<T, E>) -> Result<T, E>
    where
        E: From<Error>,
    {
        let mut tx = self.begin().await?;
        match work(&mut tx).await {
            Ok(value) => {
                tx.commit(&self.signals).await?;
                Ok(value)
            }
            Err(error) => {
                tx.roll_back().await;
                Err(error)
            }
        }
    }

    /// Runs `work` in one transaction and always rolls it back, for a command that only shows what
    /// it would do.
    ///
    /// # Errors
    /// The errors of `work`, and [`Error`] if the transaction cannot begin.
    pub async fn rolled_back_tx<T, E>(&self, work: impl AsyncFnOnce(&mut Tx) -> Result<T, E>) -> Result<T, E>
    where
        E: From<Error>,
    {
        let mut tx = self.begin().await?;
        let result = work(&mut tx).await;
        tx.roll_back().await;
        result
    }

    async fn begin(&self) -> Result<Tx, Error> {
        let (language, shared) = (self.language.clone(), self.shared.clone());
        Tx::begin(self.conn().await?, language, shared, self.has_generic_plans)
    }

    /// Returns a listener to commits in this process that [send](Tx::notify_on_commit) `signal`.
    pub fn listen(&self, signal: CommitSignal) -> CommitListener {
        self.signals.listen(signal)
    }

    /// Adds a readiness check of the database, and starts two tasks. One closes idle connections.
    /// The other stops the process if the messages of the database are not English.
    pub fn register_checks(&self, process: &Process) {
        let db = self.clone();
        process.spawn(Phase::Work, "database locale check", |stopping| db.ensure_english(stopping));
        let db = self.clone();
        process.spawn(Phase::Work, "idle connections", |stopping| db.close_idle_repeatedly(stopping));
        let probe = Arc::new(ReadinessProbe { db: self.clone(), conn: Mutex::default() });
        process.add_readiness_check("database", move || {
            let probe = probe.clone();
            async move { probe.ping().await.map_err(|error| error.to_string()) }
        });
    }

    /// Closes idle connections of the pool until `stopping`.
    ///
    /// Never fails. [`Process::spawn`] requires the `Result`.
    pub(crate) async fn close_idle_repeatedly(self, stopping: CancellationToken) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                () = tokio::time::sleep(IDLE_TIMEOUT / 4) => self.close_idle(IDLE_TIMEOUT),
                () = stopping.cancelled() => return Ok(()),
            }
        }
    }

    /// Closes the connections of the pool that have been unused for `timeout`.
    pub fn close_idle(&self, timeout: Duration) {
        self.pool.retain(|_, metrics| metrics.last_used() < timeout);
    }

    /// Checks the language of the server's messages once, as soon as the database is available.
    async fn ensure_english(self, stopping: CancellationToken) -> anyhow::Result<()> {
        let check = async {
            loop {
                if let Ok(mut conn) = self.conn().await
                    && let Ok(locale) = locale::message_locale(&mut *conn).await
                {
                    return locale::ensure_english(&locale);
                }
                tokio::time::sleep(LOCALE_CHECK_RETRY_INTERVAL).await;
            }
        };
        tokio::select! {
            result = check => result,
            () = stopping.cancelled() => Ok(()),
        }
    }
}

/// The connection of the readiness check.
///
/// The connection is not part of the pool, so an exhausted pool does not make a replica unready.
/// Such a replica still serves lookups, which the other replicas would have to serve in its place.
struct ReadinessProbe {
    db: Db,
    conn: Mutex<Option<Conn>>,
}

impl ReadinessProbe {
    async fn ping(&self) -> Result<(), Error> {
        let mut kept = self.conn.lock().await;
        if let Some(conn) = kept.as_mut()
            && conn.batch_execute("select").await.is_ok()
        {
            return Ok(());
        }
        // The server may have closed the kept connection, so only the failure of a new one counts.
        *kept = None;
        let mut conn = self.db.connect().await?;
        conn.batch_execute("select").await?;
        *kept = Some(conn);
        Ok(())
    }
}
