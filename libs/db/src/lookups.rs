//! One connection for many lookups at once.

use std::sync::Arc;

use diesel::QueryResult;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::error::is_broken;
use crate::{Config, Conn, Error};

/// What a lookup runs on. Others are under way on the same connection.
pub type Lookup<'c> = &'c Conn;

/// A connection on which lookups follow each other without waiting for answers (pipelining): a fraction of the
/// wake-ups of a pool, where each has a connection to itself. For single statements that find a row or a few by
/// their key, since a slow one holds up those behind it. Such a statement has one plan, whatever is looked for, and is
/// planned once: left to choose, PostgreSQL plans anew each time where values are spread unevenly, which takes longer
/// than the lookup.
///
/// Each worker thread has its own; shared between threads, every answer would have to wake another.
pub struct Lookups {
    config: Config,
    shared: Mutex<Option<Arc<Conn>>>,
}

impl Lookups {
    /// Connects when first needed.
    pub fn new(config: &Config) -> Self {
        Self { config: Config { keeps_plans: true, ..config.clone() }, shared: Mutex::default() }
    }

    /// Runs a lookup; once more, on a new connection, where the old one was broken.
    ///
    /// # Errors
    /// [`Error`]; [`Error::Unavailable`] where no answer comes in time.
    pub async fn run<T>(&self, lookup: impl AsyncFn(Lookup<'_>) -> QueryResult<T>) -> Result<T, Error> {
        match self.attempt(&lookup).await? {
            Err(error) if is_broken(&error) => Ok(self.attempt(&lookup).await??),
            result => Ok(result?),
        }
    }

    /// A connection that broke, or does not answer in time, is not used again.
    async fn attempt<T>(
        &self,
        lookup: &impl AsyncFn(Lookup<'_>) -> QueryResult<T>,
    ) -> Result<QueryResult<T>, Error> {
        let conn = self.conn().await?;
        let result = timeout(self.config.wait, lookup(&conn)).await;
        if result.as_ref().map_or(true, |result| result.as_ref().is_err_and(is_broken)) {
            self.forget(&conn).await;
        }
        result.map_err(|_| Error::Unavailable("no answer in time".to_owned()))
    }

    /// Who comes while it is made waits for it.
    async fn conn(&self) -> Result<Arc<Conn>, Error> {
        let connect = async {
            let mut shared = self.shared.lock().await;
            if let Some(conn) = &*shared {
                return Ok(Arc::clone(conn));
            }
            let conn =
                Conn::establish(&self.config).await.map_err(|error| Error::Unavailable(error.to_string()))?;
            Ok(Arc::clone(shared.insert(Arc::new(conn))))
        };
        timeout(self.config.wait, connect)
            .await
            .map_err(|_| Error::Unavailable("no connection in time".to_owned()))?
    }

    /// Unless somebody else did already.
    async fn forget(&self, broken: &Arc<Conn>) {
        let mut shared = self.shared.lock().await;
        if shared.as_ref().is_some_and(|conn| Arc::ptr_eq(conn, broken)) {
            *shared = None;
        }
    }
}
