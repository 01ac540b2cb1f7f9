//! A transaction as a value, which only an edge can open.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use diesel_async::SimpleAsyncConnection;
use scopeguard::ScopeGuard;
use uuid::Uuid;

use crate::commit_signal::{CommitSignal, CommitSignals};
use crate::config::{CANCELLATION_MARGIN, lock_timeout_ms};
use crate::conn::{Conn, PooledConn, close};
use crate::error::Error;

/// Commits, or fails if a statement of the transaction has failed.
///
/// Without the empty `select`, `COMMIT` would roll back such a transaction and report no error. The
/// `select` fails, so PostgreSQL skips the `COMMIT`. Both are sent in one message.
const COMMIT: &str = "select; COMMIT";

/// Begins a transaction whose prepared statements have one plan for all parameters.
const BEGIN_WITH_GENERIC_PLANS: &str = "BEGIN; SET LOCAL plan_cache_mode = force_generic_plan";

/// An open transaction.
///
/// Use cases and the outbox require `&mut Tx`, so their writes are committed together or not at
/// all. Only [`Db::tx`](crate::Db::tx) and [`Db::rolled_back_tx`](crate::Db::rolled_back_tx) create
/// one.
///
/// Dropping an unfinished transaction closes its connection, for example when the client has
/// disconnected. PostgreSQL then rolls back: immediately, or within half a second if a statement is
/// running.
pub struct Tx {
    conn: ScopeGuard<PooledConn, fn(PooledConn)>,
    /// The signals to send after the commit, with their keys.
    signals: HashMap<CommitSignal, HashSet<Uuid>>,
    closes_connection: bool,
    language: Arc<str>,
    shared: Option<Arc<dyn Any + Send + Sync>>,
}

impl Tx {
    /// Sends `BEGIN` without waiting for its response. If `BEGIN` fails, the first statement also
    /// fails.
    pub(crate) fn begin(
        conn: PooledConn,
        language: Arc<str>,
        shared: Option<Arc<dyn Any + Send + Sync>>,
        has_generic_plans: bool,
    ) -> Result<Self, Error> {
        let conn = scopeguard::guard(conn, close as fn(PooledConn));
        let tx = Self { conn, signals: HashMap::new(), closes_connection: false, language, shared };
        tx.conn.send_without_waiting(if has_generic_plans { BEGIN_WITH_GENERIC_PLANS } else { "BEGIN" })?;
        Ok(tx)
    }

    /// Commits and sends the signals. Fails if the transaction was rolled back instead, and with
    /// [`Error::OutcomeUnknown`] if the response is lost.
    pub(crate) async fn commit(mut self, signals: &CommitSignals) -> Result<(), Error> {
        if let Err(error) = self.conn().batch_execute(COMMIT).await {
            self.roll_back().await;
            return Err(Error::from_failed_commit(error));
        }
        for (signal, keys) in self.signals.drain() {
            signals.send(signal, keys);
        }
        self.release();
        Ok(())
    }

    pub(crate) async fn roll_back(mut self) {
        // While another statement is running, `ROLLBACK` would get no response. The drop closes the
        // connection.
        if self.conn.has_pending_response() {
            return;
        }
        match self.conn().batch_execute("ROLLBACK").await {
            Ok(()) => self.release(),
            // The drop closes the connection, and the server rolls back.
            Err(error) => tracing::warn!(%error, "failed to roll back a transaction"),
        }
    }

    /// Returns the connection to the pool.
    fn release(self) {
        let mut conn = ScopeGuard::into_inner(self.conn);
        conn.extend_timeout(None);
        if self.closes_connection {
            close(conn);
        }
    }

    /// Returns the connection, for queries of this transaction.
    pub fn conn(&mut self) -> &mut Conn {
        &mut self.conn
    }

    /// Returns the connection, for concurrent statements that do not wait for each other's
    /// responses.
    ///
    /// No statement may depend on another one, because their order is not fixed. A statement that
    /// is not prepared yet runs after prepared ones.
    pub fn pipeline(&self) -> &Conn {
        &self.conn
    }

    /// Returns the default language of the service, for texts that are stored once for all readers.
    pub fn language(&self) -> &str {
        &self.language
    }

    /// Returns the value of the service that every transaction shares, if it has the type `T`.
    ///
    /// Handlers of messages read their settings here, because they have no state.
    pub fn shared<T: 'static>(&self) -> Option<&T> {
        self.shared.as_deref()?.downcast_ref()
    }

    /// Sets the timeout of each statement, and of each pause between statements, until this
    /// transaction ends.
    pub async fn extend_timeout(&mut self, timeout: Duration) -> Result<(), Error> {
        let timeout_ms = timeout.as_millis();
        let limit = format!(
            "set local statement_timeout = {timeout_ms}; \
             set local lock_timeout = {}; \
             set local idle_in_transaction_session_timeout = {timeout_ms}",
            lock_timeout_ms(timeout_ms)
        );
        self.conn().batch_execute(&limit).await?;
        self.conn.extend_timeout(Some(timeout + CANCELLATION_MARGIN));
        Ok(())
    }

    /// Closes the connection after this transaction instead of returning it to the pool.
    ///
    /// Call this method if the transaction carried a large value, since a pooled connection keeps
    /// its buffers.
    pub fn close_connection_afterwards(&mut self) {
        self.closes_connection = true;
    }

    /// Sends `signal` after this transaction has committed.
    pub fn notify_on_commit(&mut self, signal: CommitSignal) {
        self.signals.entry(signal).or_default();
    }

    /// Sends `signal` with the keys of the changed entities after this transaction has committed.
    pub fn notify_keys_on_commit(&mut self, signal: CommitSignal, keys: impl IntoIterator<Item = Uuid>) {
        self.signals.entry(signal).or_default().extend(keys);
    }
}
