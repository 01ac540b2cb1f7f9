//! `snapshot-detach-retry`: detaches what posts have let go, at least once, through failures and
//! restarts; and finds the orphans of edits that failed.

use std::time::Duration;

use ::db::Db;
use tokio_util::sync::CancellationToken;

use crate::clients::Selections;
use crate::{db, ops};

/// How often it looks for something to do.
const POLL: Duration = Duration::from_secs(1);
/// Taken up in one round.
const BATCH: i64 = 50;
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

    /// Works until `stopping`; failures are logged and tried again.
    ///
    /// # Errors
    /// None today; the signature is that of a part of a service.
    pub async fn run(self, stopping: CancellationToken) -> anyhow::Result<()> {
        while !stopping.is_cancelled() {
            if let Err(error) = self.work(&stopping).await {
                tracing::warn!(%error, "snapshots wait to be detached");
            }
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                () = stopping.cancelled() => {}
            }
        }
        Ok(())
    }

    /// One round. A snapshot that fails is postponed and does not keep the others.
    async fn work(&self, stopping: &CancellationToken) -> Result<(), crate::error::Error> {
        let now = runtime::clock::now();
        db::snapshot::purge(&self.db, now - REMEMBERED).await?;
        let mut result = Ok(());
        for claim in db::snapshot::due_claims(&self.db, now, BATCH).await? {
            if stopping.is_cancelled() {
                return result;
            }
            let settled = ops::snapshot::settle_claim(&self.db, &self.selections, now, &claim).await;
            result = result.and(settled);
        }
        for detach in db::snapshot::due_detaches(&self.db, now, BATCH).await? {
            if stopping.is_cancelled() {
                return result;
            }
            let detached = ops::snapshot::detach_snapshot(&self.db, &self.selections, now, &detach).await;
            result = result.and(detached);
        }
        result
    }
}
