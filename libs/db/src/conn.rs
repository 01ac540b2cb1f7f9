//! A connection whose statements time out in the client if the server does not cancel them.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, Object, RecycleError, RecycleResult};
use diesel::ConnectionResult;
use diesel::pg::{Pg, PgNotification};
use diesel::query_builder::{AsQuery, QueryFragment, QueryId};
use diesel::result::{ConnectionError, DatabaseErrorKind, Error as DieselError, QueryResult};
use diesel_async::pooled_connection::PoolableConnection;
use diesel_async::{AsyncConnectionCore, AsyncPgConnection, SimpleAsyncConnection};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use scopeguard::ScopeGuard;
use tokio_postgres::NoTls;

use crate::config::Config;
use crate::error::Error;

/// A connection from the pool, for reads that need no transaction.
pub type PooledConn = Object<Connector>;

/// A connection for queries: within a transaction (`tx.conn()`) or without one (`db.conn()`).
///
/// PostgreSQL cancels a statement at its timeout. A pooler can prevent this: it may ignore the
/// timeout, or queue the statement until a server connection is free. So the client stops waiting
/// shortly after the timeout and does not use the connection again.
pub struct Conn {
    inner: AsyncPgConnection,
    timeout: Duration,
    /// The timeout of a transaction that called [`Tx::extend_timeout`](crate::Tx::extend_timeout).
    extended_timeout: Option<Duration>,
    has_pending_response: AtomicBool,
}

impl Conn {
    pub(crate) async fn establish(config: &Config) -> ConnectionResult<Self> {
        Ok(Self {
            inner: connect(config).boxed().await?,
            timeout: config.response_timeout(),
            extended_timeout: None,
            has_pending_response: AtomicBool::new(false),
        })
    }

    /// Returns true if a statement was abandoned before its response arrived.
    pub(crate) fn has_pending_response(&self) -> bool {
        self.has_pending_response.load(Ordering::Relaxed)
    }

    /// Waits for the next notification of the channels that this connection listens to.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the connection has ended.
    pub async fn notification(&mut self) -> Result<PgNotification, Error> {
        let mut notifications = pin!(self.inner.notifications_stream());
        match notifications.next().await {
            Some(notification) => Ok(notification?),
            None => Err(Error::Unavailable("the connection has ended".to_owned())),
        }
    }

    /// Extends the timeout of a response, or resets it with `None`.
    pub(crate) fn extend_timeout(&mut self, timeout: Option<Duration>) {
        self.extended_timeout = timeout;
    }

    /// Sends a statement without waiting for its response. If the statement fails, the next
    /// statement also fails.
    pub(crate) fn send_without_waiting(&self, query: &str) -> QueryResult<()> {
        (&mut &self.inner).batch_execute(query).now_or_never().unwrap_or(Ok(()))
    }

    /// Waits for a response until the timeout. After the timeout, or if the future is dropped, the
    /// response counts as pending.
    async fn with_timeout<T>(&self, response: impl Future<Output = QueryResult<T>>) -> QueryResult<T> {
        let pending =
            scopeguard::guard(&self.has_pending_response, |pending| pending.store(true, Ordering::Relaxed));
        let response = tokio::time::timeout(self.extended_timeout.unwrap_or(self.timeout), response).await;
        if response.is_ok() {
            ScopeGuard::into_inner(pending);
        }
        response.unwrap_or_else(|_| {
            let message = Box::new("no response in time".to_owned());
            Err(DieselError::DatabaseError(DatabaseErrorKind::UnableToSendCommand, message))
        })
    }
}

type Row<'conn, 'query> = <AsyncPgConnection as AsyncConnectionCore>::Row<'conn, 'query>;
type Stream<'conn, 'query> = <AsyncPgConnection as AsyncConnectionCore>::Stream<'conn, 'query>;

/// Pipelines the statements that are polled together: none waits for the response to another.
impl SimpleAsyncConnection for &Conn {
    async fn batch_execute(&mut self, query: &str) -> QueryResult<()> {
        self.with_timeout((&mut &self.inner).batch_execute(query).boxed()).await
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
        self.with_timeout((&mut &self.inner).load(source)).boxed()
    }

    fn execute_returning_count<'conn, 'query, T>(
        &'conn mut self,
        source: T,
    ) -> Self::ExecuteFuture<'conn, 'query>
    where
        T: QueryFragment<Pg> + QueryId + 'query,
    {
        self.with_timeout((&mut &self.inner).execute_returning_count(source)).boxed()
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

/// Connects to the server. The error includes every cause, for example why a certificate was
/// rejected.
pub(crate) async fn connect(config: &Config) -> ConnectionResult<AsyncPgConnection> {
    let server = config.server();
    let Some(tls) = &config.tls else {
        let (client, connection) =
            server.connect(NoTls).await.map_err(|error| connection_error("", error))?;
        return AsyncPgConnection::try_from_client_and_connection(client, connection).await;
    };
    let connected = server.connect(tls.clone()).await;
    let (client, connection) =
        connected.map_err(|error| connection_error("DATABASE_TLS=verify-full: ", error))?;
    AsyncPgConnection::try_from_client_and_connection(client, connection).await
}

fn connection_error(mode: &str, error: tokio_postgres::Error) -> ConnectionError {
    ConnectionError::BadConnection(format!("{mode}{:#}", anyhow::Error::new(error)))
}

/// Opens the connections of a pool.
pub struct Connector(pub(crate) Config);

impl Manager for Connector {
    type Type = Conn;
    type Error = ConnectionError;

    async fn create(&self) -> Result<Conn, ConnectionError> {
        Conn::establish(&self.0).await
    }

    /// Sends no test query: it would cost a round trip at each check-out. A connection that broke
    /// in the pool fails at its next statement.
    async fn recycle(&self, conn: &mut Conn, _: &Metrics) -> RecycleResult<ConnectionError> {
        if conn.has_pending_response() || conn.inner.is_broken() {
            return Err(RecycleError::message("the connection broke"));
        }
        Ok(())
    }
}

/// Closes a connection that carried a large value, since a pooled connection keeps its buffers.
pub fn close(conn: PooledConn) {
    drop(Object::take(conn));
}
