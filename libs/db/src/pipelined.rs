//! One connection for many lookups at the same time.

use std::sync::Arc;

use diesel::QueryResult;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::config::Config;
use crate::conn::Conn;
use crate::error::{Error, is_broken};

/// A connection that pipelines lookups: none waits for the response to another.
///
/// A pool gives each lookup its own connection, which costs several times as many wake-ups.
///
/// Use it only for single statements that find a few rows by key: a slow statement delays the
/// statements behind it. The statements have generic plans. By default PostgreSQL makes a new plan
/// for each use where values are unevenly distributed, which takes longer than the lookup.
///
/// Create one for each worker thread. If threads shared one, each response would wake another
/// thread.
pub struct PipelinedConn {
    config: Config,
    shared: Mutex<Option<Arc<Conn>>>,
}

impl PipelinedConn {
    /// Creates a handle that connects at the first lookup.
    pub fn new(config: &Config) -> Self {
        Self { config: config.with_generic_plans(), shared: Mutex::default() }
    }

    /// Runs a lookup. If the connection breaks, runs it once more on a new connection.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if there is no connection or no response in time, and the errors of
    /// the lookup.
    pub async fn run<T>(&self, lookup: impl AsyncFn(&Conn) -> QueryResult<T>) -> Result<T, Error> {
        match self.attempt(&lookup).await? {
            Err(error) if is_broken(&error) => Ok(self.attempt(&lookup).await??),
            result => Ok(result?),
        }
    }

    /// Runs a lookup once. Drops the connection if it breaks or the response is late.
    async fn attempt<T>(
        &self,
        lookup: &impl AsyncFn(&Conn) -> QueryResult<T>,
    ) -> Result<QueryResult<T>, Error> {
        let conn = self.conn().await?;
        let result = timeout(self.config.wait_timeout, lookup(&conn)).await;
        if result.as_ref().map_or(true, |result| result.as_ref().is_err_and(is_broken)) {
            self.discard(&conn).await;
        }
        result.map_err(|_| Error::Unavailable("no response in time".to_owned()))
    }

    /// Returns the connection, or opens it. Concurrent callers wait for the same attempt.
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
        timeout(self.config.wait_timeout, connect)
            .await
            .map_err(|_| Error::Unavailable("no connection in time".to_owned()))?
    }

    /// Drops the shared connection, unless it has already been replaced.
    async fn discard(&self, broken: &Arc<Conn>) {
        let mut shared = self.shared.lock().await;
        if shared.as_ref().is_some_and(|conn| Arc::ptr_eq(conn, broken)) {
            *shared = None;
        }
    }
}
