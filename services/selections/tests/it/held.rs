//! Locks that a test holds, so that statements of the service wait until the test lets them go on.

use testkit::client::Answer;
use testkit::service::Running;
use tokio_postgres::Client;

use crate::eventually;

/// A transaction of the test's own, with the locks that it has taken.
pub struct Held {
    tx: Client,
    watcher: Client,
    process: i32,
}

impl Held {
    /// Begins a transaction in the service's schema and takes locks by this statement.
    pub async fn by(service: &Running, statement: &str) -> Self {
        let (tx, watcher) = (service.sql().await, service.sql().await);
        tx.batch_execute(&format!("begin; {statement}")).await.unwrap();
        let process = tx.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        Self { tx, watcher, process }
    }

    /// Waits until so many statements like `pattern` wait for the locks, directly or behind one another.
    pub async fn waiting(&self, count: i64, pattern: &str) {
        let behind = "with recursive behind (pid) as ( \
                select pid from pg_stat_activity where $1 = any (pg_blocking_pids(pid)) \
                union select other.pid from behind join pg_stat_activity other on behind.pid = any (pg_blocking_pids(other.pid)) \
            ) select count(*) from behind join pg_stat_activity using (pid) where query ilike $2";
        eventually(&format!("{count} wait with {pattern}"), async || {
            let waiting = self.watcher.query_one(behind, &[&self.process, &pattern]).await.unwrap();
            (waiting.get::<_, i64>(0) == count).then_some(())
        })
        .await;
    }

    /// Releases the locks; those who wait go on in the order in which they came.
    pub async fn release(&self) {
        self.tx.batch_execute("rollback").await.unwrap();
    }

    /// Sends two requests whose statements like `pattern` wait for the locks, the second behind the first, and lets
    /// them go on.
    pub async fn queue(
        &self,
        pattern: &str,
        first: impl Future<Output = Answer>,
        second: impl Future<Output = Answer>,
    ) -> (Answer, Answer) {
        let second = async {
            self.waiting(1, pattern).await;
            second.await
        };
        let release = async {
            self.waiting(2, pattern).await;
            self.release().await;
        };
        let (first, second, ()) = futures_util::future::join3(first, second, release).await;
        (first, second)
    }
}
