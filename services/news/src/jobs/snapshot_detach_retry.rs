//! `snapshot-detach-retry`: detaches what posts have let go, at least once, through failures and
//! restarts; and finds the orphans of edits that failed.

use std::sync::Arc;
use std::time::Duration;

use ::jobs::Jobs;
use futures_util::{FutureExt, StreamExt, stream};

use crate::app::App;
use crate::db::snapshot::DETACH;
use crate::error::Error;
use crate::{db, ops};

/// How often it looks for edits that failed.
const POLL: Duration = Duration::from_secs(1);
/// Claims taken up in one round.
const BATCH: i64 = 50;
/// Calls that are under way together.
const AT_ONCE: usize = 8;
/// How long what was detached is remembered: longer than any edit takes.
const REMEMBERED: Duration = Duration::from_mins(10);

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    let detaching = app.clone();
    let jobs = jobs.due(DETACH, move |job| {
        let app = detaching.clone();
        async move {
            let id = job.key.parse()?;
            Ok(ops::snapshot::detach_snapshot(&app.db, &app.selections, runtime::clock::now(), id).await?)
        }
    });
    jobs.periodic("snapshot-claims", POLL, move |_| {
        let app = app.clone();
        async move { Ok(settle_claims(&app).await?) }
    })
}

/// A claim that cannot be settled is postponed and does not keep the others.
async fn settle_claims(app: &App) -> Result<(), Error> {
    let now = runtime::clock::now();
    db::snapshot::purge(&app.db, now - REMEMBERED).await?;
    let claims = db::snapshot::due_claims(&app.db, now, BATCH).await?;
    let settle = |claim| ops::snapshot::settle_claim(&app.db, &app.selections, now, claim).boxed();
    let calls: Vec<_> = claims.iter().map(settle).collect();
    let settled: Vec<_> = stream::iter(calls).buffer_unordered(AT_ONCE).collect().await;
    for error in settled.into_iter().filter_map(Result::err) {
        tracing::warn!(%error, "a claim waits to be settled");
    }
    Ok(())
}
