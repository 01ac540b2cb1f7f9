//! `snapshot-detach-retry`: detaches what posts have let go, at least once, through failures and
//! restarts; and finds the orphans of edits that failed.

use std::time::Duration;

use ::db::Db;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::clients::Selections;
use crate::error::Error;
use crate::{db, ops};

/// How often it looks for something to do.
const POLL: Duration = Duration::from_secs(1);
/// Taken up in one round.
const BATCH: i64 = 50;
/// Calls that are under way together.
const AT_ONCE: usize = 8;
/// How long what was detached is remembered: longer than any edit takes.
const REMEMBERED: Duration = Duration::from_mins(10);

pub struct SnapshotDetachRetry {
    db: Db,
    selections: Selections,
}

impl SnapshotDetachRetry {
    pub fn new(db: Db, selections: Selections) -> Self {
        Self { db, selections }
    }

    /// Works until `stopping`; failures are logged and tried again. What is cut off is taken up again
    /// by the next process.
    ///
    /// # Errors
    /// None today; the signature is that of a part of a service.
    pub async fn run(self, stopping: CancellationToken) -> anyhow::Result<()> {
        let work = async {
            loop {
                if let Err(error) = self.work().await {
                    tracing::warn!(%error, "snapshots wait to be detached");
                }
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = stopping.cancelled() => {}
        }
        Ok(())
    }

    /// One round. A snapshot that fails is postponed and does not keep the others.
    async fn work(&self) -> Result<(), Error> {
        let now = runtime::clock::now();
        db::snapshot::purge(&self.db, now - REMEMBERED).await?;
        let claims = db::snapshot::due_claims(&self.db, now, BATCH).await?;
        let settle = |claim| ops::snapshot::settle_claim(&self.db, &self.selections, now, claim).boxed();
        let settled = finish_all(claims.iter().map(settle).collect()).await;
        let detaches = db::snapshot::due_detaches(&self.db, now, BATCH).await?;
        let detach = |detach| ops::snapshot::detach_snapshot(&self.db, &self.selections, now, detach).boxed();
        settled.and(finish_all(detaches.iter().map(detach).collect()).await)
    }
}

/// Side by side, some at a time; answers the first failure.
async fn finish_all(work: Vec<BoxFuture<'_, Result<(), Error>>>) -> Result<(), Error> {
    let results: Vec<_> = stream::iter(work).buffer_unordered(AT_ONCE).collect().await;
    results.into_iter().collect()
}
