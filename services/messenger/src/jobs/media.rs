//! `media-order`: tells LiveKit who is to leave and which room is to be closed. `media-reconciliation`: compares who is
//! in live conferences with who is in their rooms. `webhooks-heard`: forgets which of LiveKit's webhooks were heard.

use std::sync::Arc;
use std::time::Duration;

use ::jobs::{Jobs, KnownFailure};
use futures_util::{FutureExt, StreamExt, stream};

use crate::app::App;
use crate::clients::LiveKit;
use crate::ops::media::MEDIA_ORDER;
use crate::{db, ops};

/// How often rooms are compared.
const RECONCILIATION: Duration = Duration::from_mins(1);
/// Live conferences that are looked at in one round.
const BATCH: i64 = 200;
/// Calls that are under way together.
const AT_ONCE: usize = 8;
/// LiveKit's tokens for what it tells live for minutes: nobody can tell it again after this.
const REMEMBERED: Duration = Duration::from_hours(24);
const FORGETTING: Duration = Duration::from_hours(1);

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    let (telling, forgetting) = (app.clone(), app.clone());
    let jobs = jobs.due(MEDIA_ORDER, move |job| {
        let app = telling.clone();
        async move {
            match &app.livekit {
                Some(livekit) => ops::media::tell(&app.db, livekit, job.key.parse()?).await,
                // There is nobody to be told.
                None => Ok(()),
            }
        }
    });
    let jobs = jobs.periodic("webhooks-heard", FORGETTING, move |_| {
        let app = forgetting.clone();
        async move { Ok(db::webhook::forget(&app.db, runtime::clock::now() - REMEMBERED).await?) }
    });
    if app.livekit.is_none() || app.settings.media_probe.is_none() {
        return jobs;
    }
    jobs.periodic("media-reconciliation", RECONCILIATION, move |_| {
        let app = app.clone();
        async move {
            match &app.livekit {
                Some(livekit) => reconcile(&app, livekit).await,
                None => Ok(()),
            }
        }
    })
}

/// All live conferences; one that cannot be compared waits for the next time and does not keep the others.
async fn reconcile(app: &App, livekit: &LiveKit) -> anyhow::Result<()> {
    let mut after = None;
    loop {
        let live = db::conference::live_after(&*app.db.conn().await?, after, BATCH).await?;
        let Some(last) = live.last() else { return Ok(()) };
        after = Some(*last);
        let compare = |room| ops::media::reconcile(&app.db, livekit, room, &app.settings.timing).boxed();
        let calls: Vec<_> = live.iter().copied().map(compare).collect();
        let compared: Vec<_> = stream::iter(calls).buffer_unordered(AT_ONCE).collect().await;
        for error in compared.into_iter().filter_map(Result::err) {
            let (is_known, error) = (error.is::<KnownFailure>(), format!("{error:#}"));
            if is_known {
                tracing::debug!(error, "a room cannot be compared");
            } else {
                tracing::warn!(error, "a room cannot be compared");
            }
        }
    }
}
