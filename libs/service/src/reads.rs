//! The reads of public operations, which a read replica of the database may serve.

use std::sync::Arc;

use auth::AnyCaller;
use db::{Conn, Db, Error, PipelinedConn, ReplicaReads};
use diesel::QueryResult;

/// The reads of public operations, for one worker thread.
///
/// Guests read from the read replica if there is one. Signed-in users read from the primary, so
/// that they see their own writes. While the read replica is down or lags, all callers read from
/// the primary.
pub struct Reads {
    pub(crate) lookups: Arc<PipelinedConn>,
    pub(crate) primary: Db,
    pub(crate) replica: Option<ReplicaReads>,
}

impl Reads {
    /// Runs a lookup by key, as [`PipelinedConn::run`] does.
    ///
    /// # Errors
    /// As [`PipelinedConn::run`].
    pub async fn look_up<T>(
        &self,
        caller: &AnyCaller,
        lookup: impl AsyncFn(&Conn) -> QueryResult<T>,
    ) -> Result<T, Error> {
        if let Some(replica) = self.replica_for(caller)
            && let Some(result) = replica.look_up(&lookup).await
        {
            return result;
        }
        self.lookups.run(lookup).await
    }

    /// Runs a lookup by key. Repeats the lookup on the primary if the read replica has no row,
    /// since the row may be too new for the read replica.
    ///
    /// # Errors
    /// As [`PipelinedConn::run`].
    pub async fn find<T>(
        &self,
        caller: &AnyCaller,
        lookup: impl AsyncFn(&Conn) -> QueryResult<Option<T>>,
    ) -> Result<Option<T>, Error> {
        if let Some(replica) = self.replica_for(caller)
            && let Some(result) = replica.look_up(&lookup).await
            && !matches!(result, Ok(None))
        {
            return result;
        }
        self.lookups.run(lookup).await
    }

    /// Runs any other read on a connection of a pool.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no connection becomes free in time, and the errors of the query.
    pub async fn query<T, E: Into<Error>>(
        &self,
        caller: &AnyCaller,
        query: impl AsyncFn(&Conn) -> Result<T, E>,
    ) -> Result<T, Error> {
        if let Some(replica) = self.replica_for(caller)
            && let Some(result) = replica.query(&query).await
        {
            return result;
        }
        query(&*self.primary.conn().await?).await.map_err(Into::into)
    }

    fn replica_for(&self, caller: &AnyCaller) -> Option<&ReplicaReads> {
        self.replica.as_ref().filter(|_| caller.actor.is_none())
    }
}
