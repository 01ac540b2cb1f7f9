//! Locks that a test holds, so that transactions of the service wait for it in a known order.

use futures_util::future::join3;
use tokio_postgres::Client;

use crate::eventually;
use crate::service::Running;

/// A transaction of the test, with the locks that it has taken.
pub struct Held {
    tx: Client,
    watcher: Client,
    process: i32,
}

impl Held {
    /// Any statement, for [`Self::waiting`] and [`Self::queue`].
    pub const ANY: &str = "%";

    /// Begins a transaction in the service's schema and takes locks by this statement.
    ///
    /// # Panics
    /// When the database refuses it.
    pub async fn by(service: &Running, statement: &str) -> Self {
        let (tx, watcher) = (service.sql().await, service.sql().await);
        tx.batch_execute(&format!("begin; {statement}")).await.expect("the locks");
        let process = tx.query_one("select pg_backend_pid()", &[]).await.expect("its process").get(0);
        Self { tx, watcher, process }
    }

    /// Waits until `count` statements like `pattern` wait for the locks, directly or behind one another.
    ///
    /// # Panics
    /// When they do not come.
    pub async fn waiting(&self, count: i64, pattern: &str) {
        let behind = "with recursive behind (pid) as ( \
                select pid from pg_stat_activity where $1 = any (pg_blocking_pids(pid)) \
                union select other.pid from behind join pg_stat_activity other \
                    on behind.pid = any (pg_blocking_pids(other.pid)) \
            ) select count(*) from behind join pg_stat_activity using (pid) where query ilike $2";
        eventually(&format!("{count} statements like {pattern} to wait for the locks"), async || {
            let waiting = self.watcher.query_one(behind, &[&self.process, &pattern]).await.expect("a count");
            (waiting.get::<_, i64>(0) == count).then_some(())
        })
        .await;
    }

    /// Releases the locks. The transactions that wait continue in the order in which they came.
    ///
    /// # Panics
    /// When the connection is lost.
    pub async fn release(&self) {
        self.tx.batch_execute("rollback").await.expect("the end of the transaction");
    }

    /// Starts `first`, starts `second` when a statement of `first` like `pattern` waits for the locks, and releases them when
    /// both wait.
    pub async fn queue<A, B>(
        &self,
        pattern: &str,
        first: impl Future<Output = A>,
        second: impl Future<Output = B>,
    ) -> (A, B) {
        let second = async {
            self.waiting(1, pattern).await;
            second.await
        };
        let release = async {
            self.waiting(2, pattern).await;
            self.release().await;
        };
        let (first, second, ()) = join3(first, second, release).await;
        (first, second)
    }
}
