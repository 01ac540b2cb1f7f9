//! The job `conference-deadline` ends conferences that are unanswered, empty or too long.
//! An unanswered invitation becomes Missed.

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
