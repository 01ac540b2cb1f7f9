//! A row lock that a test holds, so that the service's transactions wait for it in a known order.

use futures_util::future::join3;
use testkit::eventually;
use testkit::service::Running;
use tokio_postgres::Client;
use uuid::Uuid;

/// A transaction of the test that holds the row of a chat. All changes of a chat queue on that row.
pub struct Held {
    tx: Client,
    watcher: Client,
    process: i32,
}

impl Held {
    /// Locks the row of a chat.
    pub async fn chat(service: &Running, chat: Uuid) -> Self {
        let (tx, watcher) = (service.sql().await, service.sql().await);
        tx.batch_execute("begin").await.unwrap();
        let lock = "select from chat where id = $1::text::uuid for update";
        assert_eq!(tx.execute(lock, &[&chat.to_string()]).await.unwrap(), 1, "the chat is there");
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
        eventually(&format!("{count} to wait for the chat"), async || {
            let waiting = self.watcher.query_one(behind, &[&self.process]).await.unwrap();
            (waiting.get::<_, i64>(0) == count).then_some(())
        })
        .await;
    }

    /// Releases the lock. The transactions that wait continue in the order in which they came.
    pub async fn release(&self) {
        self.tx.batch_execute("rollback").await.unwrap();
    }

    /// Starts `first`, starts `second` when `first` waits for the lock, and releases the lock when both wait.
    pub async fn queue<A, B>(
        self,
        first: impl Future<Output = A>,
        second: impl Future<Output = B>,
    ) -> (A, B) {
        let second = async {
            self.waiting(1).await;
            second.await
        };
        let release = async {
            self.waiting(2).await;
            self.release().await;
        };
        let (first, second, ()) = join3(first, second, release).await;
        (first, second)
    }
}
