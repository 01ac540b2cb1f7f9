//! Locks that a test holds, so that transactions of the service wait in a known order.

use futures_util::future::join3;
use tokio_postgres::Client;

use crate::eventually;
use crate::service::Running;

/// An open transaction of the test, which holds locks.
pub struct HeldLocks {
    tx: Client,
    watcher: Client,
    process: i32,
}

impl HeldLocks {
    /// The pattern of any statement, for [`Self::wait_for`] and [`Self::queue`].
    pub const ANY: &str = "%";

    /// Begins a transaction in the service's schema and executes a statement that takes locks.
    ///
    /// # Panics
    /// If the statement fails.
    pub async fn lock(service: &Running, statement: &str) -> Self {
        let (tx, watcher) = (service.sql().await, service.sql().await);
        tx.batch_execute(&format!("begin; {statement}")).await.expect("the locks");
        let process = tx.query_one("select pg_backend_pid()", &[]).await.expect("its process").get(0);
        Self { tx, watcher, process }
    }

    /// Waits until `count` statements like `pattern` wait for the locks, directly or behind one
    /// another.
    ///
    /// # Panics
    /// If there are not `count` such statements within the timeout.
    pub async fn wait_for(&self, count: i64, pattern: &str) {
        let waiting_behind = "with recursive behind (pid) as ( \
                select pid from pg_stat_activity where $1 = any (pg_blocking_pids(pid)) \
                union select other.pid from behind join pg_stat_activity other \
                    on behind.pid = any (pg_blocking_pids(other.pid)) \
            ) select count(*) from behind join pg_stat_activity using (pid) where query ilike $2";
        eventually(&format!("{count} statements like {pattern} to wait for the locks"), async || {
            let waiting =
                self.watcher.query_one(waiting_behind, &[&self.process, &pattern]).await.expect("a count");
            (waiting.get::<_, i64>(0) == count).then_some(())
        })
        .await;
    }

    /// Releases the locks. The waiting transactions continue in the order of their arrival.
    ///
    /// # Panics
    /// If the connection is lost.
    pub async fn release(&self) {
        self.tx.batch_execute("rollback").await.expect("the end of the transaction");
    }

    /// Runs `first` and `second` so that their statements like `pattern` wait for the locks in this
    /// order, and then releases the locks.
    pub async fn queue<A, B>(
        &self,
        pattern: &str,
        first: impl Future<Output = A>,
        second: impl Future<Output = B>,
    ) -> (A, B) {
        let second = async {
            self.wait_for(1, pattern).await;
            second.await
        };
        let release = async {
            self.wait_for(2, pattern).await;
            self.release().await;
        };
        let (first, second, ()) = join3(first, second, release).await;
        (first, second)
    }
}
