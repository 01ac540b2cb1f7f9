//! `snapshot-detach-retry` detaches snapshots that left their post, at least once.
//! `snapshot-claims` settles the claims of failed edits. Both survive failures and restarts.

use std::sync::Arc;
use std::time::Duration;

use ::jobs::Jobs;
use futures_util::{FutureExt, StreamExt, stream};

use crate::app::App;
use crate::db::snapshot::DETACH_JOB;
use crate::error::Error;
use crate::{db, ops};

/// Interval between two searches for due claims.
const CLAIM_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of claims in one run of `snapshot-claims`.
const CLAIM_BATCH_SIZE: i64 = 50;
/// Maximum number of claims that are settled concurrently.
const CONCURRENCY: usize = 8;
/// Retention of finished detachments, longer than an edit can run.
const DETACHMENT_RETENTION: Duration = Duration::from_mins(10);

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    let detach_app = app.clone();
    let jobs = jobs.due(DETACH_JOB, move |job| {
        let app = detach_app.clone();
        async move {
            let id = job.key.parse()?;
            Ok(ops::snapshot::detach_snapshot(&app.db, &app.selections, runtime::clock::now(), id).await?)
        }
    });
    jobs.periodic("snapshot-claims", CLAIM_POLL_INTERVAL, move |_| {
        let app = app.clone();
        async move { Ok(settle_claims(&app).await?) }
    })
}

/// Purges old detachments and settles the due claims. A claim that cannot be settled is postponed
/// and blocks no other.
async fn settle_claims(app: &App) -> Result<(), Error> {
    let now = runtime::clock::now();
    db::snapshot::purge_detachments(&app.db, now - DETACHMENT_RETENTION).await?;
    let claims = db::snapshot::find_due_claims(&app.db, now, CLAIM_BATCH_SIZE).await?;
    let settle = |claim| ops::snapshot::settle_claim(&app.db, &app.selections, now, claim).boxed();
    let calls: Vec<_> = claims.iter().map(settle).collect();
    let settled: Vec<_> = stream::iter(calls).buffer_unordered(CONCURRENCY).collect().await;
    for error in settled.into_iter().filter_map(Result::err) {
        tracing::warn!(%error, "failed to settle a snapshot claim");
    }
    Ok(())
}
