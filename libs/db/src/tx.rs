//! A transaction, as a value that only an edge can make.

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::Object;
use diesel_async::SimpleAsyncConnection;
use scopeguard::ScopeGuard;
use tokio::sync::watch;

use crate::{CUTTING_OFF, Conn, Error, Lookup, PooledConn};

/// COMMIT of a transaction in which a statement has failed rolls back and is no error. What stands before it
/// fails there, and then COMMIT is not even looked at. One message, and one answer.
const COMMIT: &str = "select; COMMIT";

/// For a transaction whose statements are planned once for each connection, not for their values.
const BEGIN_KEEPING_PLANS: &str = "BEGIN; SET LOCAL plan_cache_mode = force_generic_plan";

/// An open transaction. Use cases and the outbox demand `&mut Tx`, so that what they write is kept
/// or dropped together; only [`Db::tx`](crate::Db::tx) makes one.
///
/// Dropped unfinished (a client that hung up), its connection is closed, and PostgreSQL rolls it back: at once,
/// or within half a second where a statement was under way.
pub struct Tx {
    conn: ScopeGuard<PooledConn, fn(PooledConn)>,
    announced: Vec<Work>,
    closes: bool,
    language: Arc<str>,
}

impl Tx {
    /// Sends `BEGIN` and does not wait for its answer: the first statement follows at once, and fails where
    /// this has failed.
    pub(crate) fn begin(conn: PooledConn, language: Arc<str>, keeps_plans: bool) -> Result<Self, Error> {
        let conn = scopeguard::guard(conn, close as fn(PooledConn));
        let tx = Self { conn, announced: Vec::new(), closes: false, language };
        tx.conn.send(if keeps_plans { BEGIN_KEEPING_PLANS } else { "BEGIN" })?;
        Ok(tx)
    }

    /// A commit that did not commit is an error, whatever the work answered.
    pub(crate) async fn commit(mut self, committed: &Commits) -> Result<(), Error> {
        if let Err(error) = self.conn().batch_execute(COMMIT).await {
            self.roll_back().await;
            return Err(error.into());
        }
        for work in self.announced.drain(..) {
            committed.of(work).send_replace(());
        }
        self.finish();
        Ok(())
    }

    pub(crate) async fn roll_back(mut self) {
        // Behind a statement without an answer there will be none.
        if self.conn.is_given_up() {
            return;
        }
        match self.conn().batch_execute("ROLLBACK").await {
            Ok(()) => self.finish(),
            // Dropped, the connection is closed, and the server rolls back.
            Err(error) => tracing::warn!(%error, "a rollback failed"),
        }
    }

    /// Gives the connection back.
    fn finish(self) {
        let mut conn = ScopeGuard::into_inner(self.conn);
        conn.wait_longer(None);
        if self.closes {
            close(conn);
        }
    }

    /// The connection, for queries of this transaction.
    pub fn conn(&mut self) -> &mut Conn {
        &mut self.conn
    }

    /// The same, for statements that do not wait for each other's answers: none may need what another does, since one that is
    /// prepared first comes later.
    pub fn pipeline(&self) -> Lookup<'_> {
        &self.conn
    }

    /// That of words which are written once, whoever reads them.
    pub fn language(&self) -> &str {
        &self.language
    }

    /// Lets the statements of this transaction take longer than others may, here and in the server, and it may rest as long between them.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn allow(&mut self, longest: Duration) -> Result<(), Error> {
        let longest_ms = longest.as_millis();
        let limit = format!(
            "set local statement_timeout = {longest_ms}; \
             set local idle_in_transaction_session_timeout = {longest_ms}"
        );
        self.conn().batch_execute(&limit).await?;
        self.conn.wait_longer(Some(longest + CUTTING_OFF));
        Ok(())
    }

    /// Something large goes through the connection: it is closed afterwards, as by [`close`].
    pub fn close_after(&mut self) {
        self.closes = true;
    }

    /// Wakes those who wait for such work once this transaction has committed.
    pub fn announce(&mut self, work: Work) {
        if !self.announced.contains(&work) {
            self.announced.push(work);
        }
    }
}

/// Closes a connection that something large went through. Back in the pool it would keep its buffers as
/// large as they have grown.
pub fn close(conn: PooledConn) {
    drop(Object::take(conn));
}

/// What a transaction leaves for others to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Events to be relayed.
    Events,
    /// Jobs that are due.
    Jobs,
    /// What people are told as it happens.
    Stream,
}

/// Where commits in this process are told of.
#[derive(Default)]
pub(crate) struct Commits {
    events: watch::Sender<()>,
    jobs: watch::Sender<()>,
    stream: watch::Sender<()>,
}

impl Commits {
    fn of(&self, work: Work) -> &watch::Sender<()> {
        match work {
            Work::Events => &self.events,
            Work::Jobs => &self.jobs,
            Work::Stream => &self.stream,
        }
    }

    pub(crate) fn wait_for(&self, work: Work) -> Committed {
        Committed(self.of(work).subscribe())
    }
}

/// Tells of commits in this process that left something to do.
pub struct Committed(watch::Receiver<()>);

impl Committed {
    /// Resolves at the next commit, or at once if there was one since the last call.
    pub async fn wait(&mut self) {
        if self.0.changed().await.is_err() {
            // Nobody is left who could commit.
            std::future::pending::<()>().await;
        }
    }
}
