//! `conference-deadline`: a call that nobody answers, an invitation that rings too long, a conference that is empty or
//! has gone on for too long.

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;
use crate::ops;
use crate::ops::conference::CONFERENCE_DEADLINE;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.due(CONFERENCE_DEADLINE, move |job| {
        let app = app.clone();
        async move {
            let (id, timing) = (job.key.parse()?, &app.settings.timing);
            Ok(app.db.tx(async |tx| ops::conference::expire(tx, id, timing).await).await?)
        }
    })
}
