//! A row lock that a test holds, so that the service's transactions wait for it in a known order.

use testkit::eventually;
use tokio_postgres::Client;

use crate::{Tenant, service};

/// A transaction of the test that holds the row of a tenant. All changes of its employees and their roles queue on that row.
pub struct Held {
    tx: Client,
    watcher: Client,
    process: i32,
}

impl Held {
    /// Locks the row of a tenant.
    pub async fn tenant(tenant: Tenant) -> Self {
        let (tx, watcher) = (service().sql().await, service().sql().await);
        tx.batch_execute("begin").await.unwrap();
        let lock = "select from tenant where id = $1::text::uuid for update";
        assert_eq!(tx.execute(lock, &[&tenant.0.to_string()]).await.unwrap(), 1, "the tenant is there");
        let process = tx.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        Self { tx, watcher, process }
    }

    /// Waits until `count` transactions wait for the lock, directly or behind one another.
    pub async fn waiting(&self, count: i64) {
        let behind = "with recursive behind (pid) as ( \
                select pid from pg_stat_activity where $1 = any (pg_blocking_pids(pid)) \
                union select other.pid from behind join pg_stat_activity other \
                    on behind.pid = any (pg_blocking_pids(other.pid)) \
            ) select count(*) from behind";
        eventually(&format!("{count} to wait for the tenant"), async || {
            let waiting = self.watcher.query_one(behind, &[&self.process]).await.unwrap();
            (waiting.get::<_, i64>(0) == count).then_some(())
        })
        .await;
    }

    /// Releases the lock. The transactions that wait continue in the order in which they came.
    pub async fn release(&self) {
        self.tx.batch_execute("rollback").await.unwrap();
    }
}
