//! One connection for many lookups at the same time.

use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use diesel::QueryResult;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::config::Config;
use crate::conn::Conn;
use crate::db::Db;
use crate::error::{Error, is_broken};

/// The number of lookups in flight above which further ones use the pool. PostgreSQL runs the
/// statements of a connection one after the other.
const MAX_IN_FLIGHT: usize = 64;
/// The time without a response after which further lookups use the pool. A slow statement delays
/// only the lookups that were sent before this time.
const MAX_STALL: Duration = Duration::from_millis(50);

/// A connection that pipelines lookups: none waits for the response to another.
///
/// A pool gives each lookup its own connection, which costs several times as many wake-ups.
///
/// Use this connection only for single statements that find a few rows by key, because a slow
/// statement delays the statements behind it. The statements have generic plans. By default
/// PostgreSQL makes a new plan for each use where values are unevenly distributed, which takes
/// longer than the lookup.
///
/// Create one connection for each worker thread. On a shared connection, a response would often
/// wake another thread.
pub struct PipelinedConn {
    config: Config,
    shared: Mutex<Option<Arc<Conn>>>,
    /// Runs lookups while the shared connection is congested.
    overflow: Db,
    load: SyncMutex<Load>,
}

/// The lookups in flight on the shared connection.
struct Load {
    in_flight: usize,
    /// The time of the last response, or of the first lookup after a pause.
    last_progress: Instant,
}

/// One lookup in flight.
struct InFlight<'a>(&'a SyncMutex<Load>);

impl InFlight<'_> {
    /// Counts a lookup. Returns `None` if the connection is congested.
    fn begin(load: &SyncMutex<Load>) -> Option<InFlight<'_>> {
        let mut counted = load.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.in_flight == 0 {
            counted.last_progress = Instant::now();
        } else if counted.in_flight >= MAX_IN_FLIGHT || counted.last_progress.elapsed() > MAX_STALL {
            return None;
        }
        counted.in_flight += 1;
        Some(InFlight(load))
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.in_flight -= 1;
        counted.last_progress = Instant::now();
    }
}

impl PipelinedConn {
    /// Creates a handle that connects at the first lookup.
    pub fn new(config: &Config, overflow: Db) -> Self {
        let load = Load { in_flight: 0, last_progress: Instant::now() };
        Self {
            config: config.with_generic_plans(),
            shared: Mutex::default(),
            overflow,
            load: SyncMutex::new(load),
        }
    }

    /// Returns the maximum wait for a connection or a response (`DATABASE_WAIT_MS`).
    pub fn wait_timeout(&self) -> Duration {
        self.config.wait_timeout
    }

    /// Runs a lookup. If the connection breaks, runs it once more on a new connection.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if there is no connection or no response in time, and the errors of
    /// the lookup.
    pub async fn run<T>(&self, lookup: impl AsyncFn(&Conn) -> QueryResult<T>) -> Result<T, Error> {
        let Some(_in_flight) = InFlight::begin(&self.load) else {
            let conn = self.overflow.conn().await?;
            return Ok(lookup(&conn).await?);
        };
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{InFlight, Load, MAX_IN_FLIGHT, MAX_STALL};

    fn load() -> Mutex<Load> {
        Mutex::new(Load { in_flight: 0, last_progress: Instant::now() })
    }

    /// RULE-ALL-032: the depth of the pipeline is limited.
    #[test]
    fn lookup_beyond_the_maximum_depth_is_not_pipelined() {
        let load = load();
        let mut all: Vec<_> = (0..MAX_IN_FLIGHT).map(|_| InFlight::begin(&load).unwrap()).collect();
        assert!(InFlight::begin(&load).is_none());
        all.pop();
        assert!(InFlight::begin(&load).is_some());
    }

    /// RULE-ALL-032: a pipeline without a response for [`MAX_STALL`] accepts no lookups. An idle
    /// pipeline does not count as stalled.
    #[test]
    fn stalled_pipeline_takes_lookups_after_its_next_response() {
        let load = load();
        let wait = |time| load.lock().unwrap().last_progress -= time;
        wait(Duration::from_mins(1));
        let (first, second) = (InFlight::begin(&load).unwrap(), InFlight::begin(&load).unwrap());
        wait(MAX_STALL + Duration::from_millis(1));
        assert!(InFlight::begin(&load).is_none());
        drop(first);
        assert!(InFlight::begin(&load).is_some());
        drop(second);
    }
}
