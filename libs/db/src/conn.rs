//! A connection whose statements have a limit on this side, too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use diesel::ConnectionResult;
use diesel::pg::Pg;
use diesel::query_builder::{AsQuery, QueryFragment, QueryId};
use diesel::result::{ConnectionError, DatabaseErrorKind, Error as DieselError, QueryResult};
use diesel_async::pooled_connection::PoolableConnection;
use diesel_async::{AsyncConnection, AsyncConnectionCore, AsyncPgConnection, SimpleAsyncConnection};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use scopeguard::ScopeGuard;

use crate::Config;

/// What queries run on: within a transaction (`tx.conn()`) or without (`db.conn()`).
///
/// PostgreSQL cuts a statement off by itself. Behind a pooler nobody may, and a statement may wait there for a
/// connection that never comes; so the wait for its answer ends here a little later. The connection is not used
/// again then.
pub struct Conn {
    shared: AsyncPgConnection,
    patience: Duration,
    /// Of a transaction whose statements may take longer.
    longer: Option<Duration>,
    given_up: AtomicBool,
}

impl Conn {
    pub(crate) async fn establish(config: &Config) -> ConnectionResult<Self> {
        let shared = AsyncPgConnection::establish(&config.connection_url()).boxed().await?;
        Ok(Self { shared, patience: config.patience(), longer: None, given_up: AtomicBool::new(false) })
    }

    /// Whether an answer is still owed.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Has answers waited for as long as this; `None`: as usual.
    pub(crate) fn wait_longer(&mut self, longer: Option<Duration>) {
        self.longer = longer;
    }

    /// Sends what needs no answer: what follows fails where this has failed.
    pub(crate) fn send(&self, query: &str) -> QueryResult<()> {
        (&mut &self.shared).batch_execute(query).now_or_never().unwrap_or(Ok(()))
    }

    /// A caller that hangs up owes the connection an answer, too.
    async fn limited<T>(&self, answer: impl Future<Output = QueryResult<T>>) -> QueryResult<T> {
        let owed = scopeguard::guard(&self.given_up, |owed| owed.store(true, Ordering::Relaxed));
        let answer = tokio::time::timeout(self.longer.unwrap_or(self.patience), answer).await;
        if answer.is_ok() {
            ScopeGuard::into_inner(owed);
        }
        answer.unwrap_or_else(|_| {
            let late = Box::new("no answer in time".to_owned());
            Err(DieselError::DatabaseError(DatabaseErrorKind::UnableToSendCommand, late))
        })
    }
}

type Row<'conn, 'query> = <AsyncPgConnection as AsyncConnectionCore>::Row<'conn, 'query>;
type Stream<'conn, 'query> = <AsyncPgConnection as AsyncConnectionCore>::Stream<'conn, 'query>;

/// Statements that are polled together follow each other without waiting for answers.
impl SimpleAsyncConnection for &Conn {
    async fn batch_execute(&mut self, query: &str) -> QueryResult<()> {
        self.limited((&mut &self.shared).batch_execute(query).boxed()).await
    }
}

impl<'c> AsyncConnectionCore for &'c Conn {
    type ExecuteFuture<'conn, 'query> = BoxFuture<'c, QueryResult<usize>>;
    type LoadFuture<'conn, 'query> = BoxFuture<'c, QueryResult<Self::Stream<'conn, 'query>>>;
    type Stream<'conn, 'query> = Stream<'conn, 'query>;
    type Row<'conn, 'query> = Row<'conn, 'query>;
    type Backend = Pg;

    fn load<'conn, 'query, T>(&'conn mut self, source: T) -> Self::LoadFuture<'conn, 'query>
    where
        T: AsQuery + 'query,
        T::Query: QueryFragment<Pg> + QueryId + 'query,
    {
        self.limited((&mut &self.shared).load(source)).boxed()
    }

    fn execute_returning_count<'conn, 'query, T>(
        &'conn mut self,
        source: T,
    ) -> Self::ExecuteFuture<'conn, 'query>
    where
        T: QueryFragment<Pg> + QueryId + 'query,
    {
        self.limited((&mut &self.shared).execute_returning_count(source)).boxed()
    }
}

impl SimpleAsyncConnection for Conn {
    async fn batch_execute(&mut self, query: &str) -> QueryResult<()> {
        (&mut &*self).batch_execute(query).await
    }
}

impl AsyncConnectionCore for Conn {
    type ExecuteFuture<'conn, 'query> = BoxFuture<'conn, QueryResult<usize>>;
    type LoadFuture<'conn, 'query> = BoxFuture<'conn, QueryResult<Self::Stream<'conn, 'query>>>;
    type Stream<'conn, 'query> = Stream<'conn, 'query>;
    type Row<'conn, 'query> = Row<'conn, 'query>;
    type Backend = Pg;

    fn load<'conn, 'query, T>(&'conn mut self, source: T) -> Self::LoadFuture<'conn, 'query>
    where
        T: AsQuery + 'query,
        T::Query: QueryFragment<Pg> + QueryId + 'query,
    {
        (&mut &*self).load(source)
    }

    fn execute_returning_count<'conn, 'query, T>(
        &'conn mut self,
        source: T,
    ) -> Self::ExecuteFuture<'conn, 'query>
    where
        T: QueryFragment<Pg> + QueryId + 'query,
    {
        (&mut &*self).execute_returning_count(source)
    }
}

/// Opens the connections of a pool.
pub struct Connector(pub(crate) Config);

impl Manager for Connector {
    type Type = Conn;
    type Error = ConnectionError;

    async fn create(&self) -> Result<Conn, ConnectionError> {
        Conn::establish(&self.0).await
    }

    /// Testing a connection at each check-out costs a round trip; one that broke meanwhile is an error to handle.
    async fn recycle(&self, conn: &mut Conn, _: &Metrics) -> RecycleResult<ConnectionError> {
        if conn.is_given_up() || conn.shared.is_broken() {
            return Err(RecycleError::message("the connection broke"));
        }
        Ok(())
    }
}
