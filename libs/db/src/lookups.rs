//! One connection for many lookups at once.

use std::sync::Arc;

use diesel::QueryResult;
use diesel_async::{AsyncConnection, AsyncPgConnection};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::{Config, Error, PATIENCE};

/// What a lookup runs on. Others are under way on the same connection.
pub type Lookup<'c> = &'c AsyncPgConnection;

/// A connection on which lookups follow each other without waiting for answers (pipelining): a fraction of the
/// wake-ups of a pool, where each has a connection to itself. For single statements that find a row or a few by
/// their key, since a slow one holds up those behind it.
///
/// Each worker thread has its own; shared between threads, every answer would have to wake another.
pub struct Lookups {
    url: String,
    shared: Mutex<Option<Arc<AsyncPgConnection>>>,
}

impl Lookups {
    /// Connects when first needed.
    pub fn new(config: &Config) -> Self {
        Self { url: config.connection_url(), shared: Mutex::default() }
    }

    /// Runs a lookup; once more, on a new connection, where the old one was broken.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn run<T>(&self, lookup: impl AsyncFn(Lookup<'_>) -> QueryResult<T>) -> Result<T, Error> {
        let conn = self.conn().await?;
        match lookup(&conn).await.map_err(Error::from) {
            Err(Error::Unavailable(_)) => {
                self.forget(&conn).await;
                Ok(lookup(&*self.conn().await?).await?)
            }
            result => result,
        }
    }

    /// Who comes while it is made waits for it.
    async fn conn(&self) -> Result<Arc<AsyncPgConnection>, Error> {
        let connect = async {
            let mut shared = self.shared.lock().await;
            if let Some(conn) = &*shared {
                return Ok(Arc::clone(conn));
            }
            let conn = AsyncPgConnection::establish(&self.url)
                .await
                .map_err(|error| Error::Unavailable(error.to_string()))?;
            Ok(Arc::clone(shared.insert(Arc::new(conn))))
        };
        timeout(PATIENCE, connect)
            .await
            .map_err(|_| Error::Unavailable("no connection in time".to_owned()))?
    }

    /// Unless somebody else did already.
    async fn forget(&self, broken: &Arc<AsyncPgConnection>) {
        let mut shared = self.shared.lock().await;
        if shared.as_ref().is_some_and(|conn| Arc::ptr_eq(conn, broken)) {
            *shared = None;
        }
    }
}
