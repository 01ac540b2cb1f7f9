//! The job `conference-deadline`: ends unanswered, empty and too long conferences, and misses
//! unanswered
//! invitations.

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;
use crate::ops;
use crate::ops::conference::CONFERENCE_DEADLINE_JOB;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.due(CONFERENCE_DEADLINE_JOB, move |job| {
        let app = app.clone();
        async move {
            let (id, timing) = (job.key.parse()?, &app.settings.timing);
            Ok(app.db.tx(async |tx| ops::conference::apply_deadline(tx, id, timing).await).await?)
        }
    })
}
