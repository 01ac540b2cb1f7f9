//! Jobs for LiveKit.
//! `media-command` sends commands, `media-reconciliation` compares live conferences with LiveKit's
//! rooms, and `webhook-retention` deletes old webhook ids.

use std::sync::Arc;
use std::time::Duration;

use ::jobs::{AlreadyLogged, Job, Jobs};
use futures_util::{FutureExt, StreamExt, stream};

use crate::app::App;
use crate::clients::LiveKit;
use crate::ops::room::MEDIA_COMMAND_JOB;
use crate::{db, ops};

const RECONCILIATION_INTERVAL: Duration = Duration::from_mins(1);
/// Live conferences that one query reads.
const BATCH: i64 = 200;
/// Concurrent calls to LiveKit.
const CONCURRENCY: usize = 8;
/// Webhook ids that one transaction deletes.
const WEBHOOK_BATCH: u32 = 5_000;
/// Retention of webhook ids.
/// A webhook cannot be repeated later, because LiveKit's signature expires within minutes.
const WEBHOOK_RETENTION: Duration = Duration::from_hours(24);
const WEBHOOK_DELETION_INTERVAL: Duration = Duration::from_hours(1);

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    let (sender, deleter) = (app.clone(), app.clone());
    let jobs = jobs.due(MEDIA_COMMAND_JOB, move |job| {
        let app = sender.clone();
        async move {
            match &app.livekit {
                Some(livekit) => ops::room::send_command(&app.db, livekit, job.key.parse()?).await,
                // Without LiveKit the command has no receiver.
                None => Ok(()),
            }
        }
    });
    let jobs = jobs.periodic("webhook-retention", WEBHOOK_DELETION_INTERVAL, move |job| {
        let app = deleter.clone();
        async move {
            let delete = async || {
                app.db
                    .tx(async |tx| db::webhook::delete_older_than(tx, WEBHOOK_RETENTION, WEBHOOK_BATCH).await)
                    .await
            };
            while delete().await? == WEBHOOK_BATCH as usize {
                job.check_stopping()?;
            }
            Ok(())
        }
    });
    if app.livekit.is_none() || app.settings.media_probe_interval.is_none() {
        return jobs;
    }
    jobs.periodic("media-reconciliation", RECONCILIATION_INTERVAL, move |job| {
        let app = app.clone();
        async move {
            match &app.livekit {
                Some(livekit) => reconcile(&app, livekit, &job).await,
                None => Ok(()),
            }
        }
    })
}

/// Compares all live conferences with their rooms.
/// A failure skips one conference until the next run.
async fn reconcile(app: &App, livekit: &LiveKit, job: &Job) -> anyhow::Result<()> {
    let mut after = None;
    loop {
        job.check_stopping()?;
        let live = db::conference::list_live_after(&*app.db.conn().await?, after, BATCH).await?;
        let Some(last) = live.last() else { return Ok(()) };
        after = Some(*last);
        let compare = |room| ops::media::reconcile(&app.db, livekit, room, &app.settings.timing).boxed();
        let calls: Vec<_> = live.iter().copied().map(compare).collect();
        let compared: Vec<_> = stream::iter(calls).buffer_unordered(CONCURRENCY).collect().await;
        for error in compared.into_iter().filter_map(Result::err) {
            let (is_logged, error) = (error.is::<AlreadyLogged>(), format!("{error:#}"));
            if is_logged {
                tracing::debug!(error, "failed to compare a room with its conference");
            } else {
                tracing::warn!(error, "failed to compare a room with its conference");
            }
        }
    }
}
