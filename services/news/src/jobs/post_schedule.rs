//! `post-schedule` publishes and unpublishes posts at their times, each move once.

use std::sync::Arc;

use ::jobs::{Jobs, schedule};

use crate::app::App;
use crate::ops::post::SCHEDULE_JOB;
use crate::{error, ops};

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.due(SCHEDULE_JOB, move |job| {
        let app = app.clone();
        async move {
            let id = job.key.parse()?;
            let run = app.db.tx(async |tx| {
                // One transaction makes the move and schedules the job for the post's next time. A
                // move that another run has already made is no longer due.
                match ops::schedule::make_due_move(tx, id).await? {
                    Some(next_at) => schedule(tx, SCHEDULE_JOB, [id], next_at).await?,
                    None => job.complete(tx).await?,
                }
                Ok::<_, error::Error>(())
            });
            Ok(run.await?)
        }
    })
}
