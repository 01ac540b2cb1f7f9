//! A transaction, as a value that only an edge can make.

use std::sync::Arc;

use deadpool::managed::Object;
use diesel::connection::{TransactionDepthChange, TransactionManagerStatus};
use diesel_async::{AnsiTransactionManager, AsyncPgConnection, SimpleAsyncConnection, TransactionManager};
use futures_util::FutureExt;
use tokio::sync::Notify;

use crate::{Conn, Error, PooledConn};

/// An open transaction. Use cases and the outbox demand `&mut Tx`, so that what they write is kept
/// or dropped together; only [`Db::tx`](crate::Db::tx) makes one.
///
/// Dropped unfinished (a client that hung up), its connection leaves the pool and PostgreSQL rolls
/// it back.
pub struct Tx {
    conn: PooledConn,
    announced: bool,
    closes: bool,
}

impl Tx {
    /// Sends `BEGIN` and does not wait for its answer: the first statement follows at once, and fails where
    /// this has failed.
    pub(crate) fn begin(mut conn: PooledConn) -> Result<Self, Error> {
        let mut shared = &*conn;
        if let Some(failed) = shared.batch_execute("BEGIN").now_or_never() {
            failed?;
        }
        let status = AnsiTransactionManager::transaction_manager_status_mut(&mut *conn);
        if let TransactionManagerStatus::Valid(status) = status {
            status.change_transaction_depth(TransactionDepthChange::IncreaseDepth)?;
        }
        Ok(Self { conn, announced: false, closes: false })
    }

    pub(crate) async fn commit(mut self, committed: &Committed) -> Result<(), Error> {
        AnsiTransactionManager::commit_transaction(&mut *self.conn).await?;
        if self.announced {
            committed.0.notify_one();
        }
        if self.closes {
            close(self.conn);
        }
        Ok(())
    }

    pub(crate) async fn roll_back(mut self) {
        // A rollback that fails leaves the connection broken; the pool drops it and the server rolls back.
        if let Err(error) =
            <AnsiTransactionManager as TransactionManager<AsyncPgConnection>>::rollback_transaction(
                &mut *self.conn,
            )
            .await
        {
            tracing::warn!(%error, "a rollback failed");
        }
        if self.closes {
            close(self.conn);
        }
    }

    /// The connection, for queries of this transaction.
    pub fn conn(&mut self) -> &mut Conn {
        &mut self.conn
    }

    /// Something large goes through the connection: it is closed afterwards, as by [`close`].
    pub fn close_after(&mut self) {
        self.closes = true;
    }

    /// Wakes whoever waits on [`Committed`] once this transaction has committed.
    pub fn announce(&mut self) {
        self.announced = true;
    }
}

/// Closes a connection that something large went through. Back in the pool it would keep its buffers as
/// large as they have grown.
pub fn close(conn: PooledConn) {
    drop(Object::take(conn));
}

/// Tells of commits in this process that had something to announce: the relay's wake-up.
#[derive(Clone, Default)]
pub struct Committed(Arc<Notify>);

impl Committed {
    /// Resolves at the next commit, or at once if there was one since the last call.
    pub async fn wait(&self) {
        self.0.notified().await;
    }
}
