//! `payout-run`: works a run off, account by account, each in its own transaction. Whoever takes it up after a crash goes on
//! where it stands.

use std::sync::Arc;

use ::jobs::{Job, Jobs};
use runtime::clock;

use crate::app::App;
use crate::error::Error;
use crate::ops;
use crate::ops::payout_run::PAYOUT_RUN;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.due_within(PAYOUT_RUN, app.settings.payout_run_poll, move |job| {
        let app = app.clone();
        async move {
            while pay_next(&app, &job).await? {}
            Ok(())
        }
    })
}

/// `false`: the run is completed.
async fn pay_next(app: &App, job: &Job) -> anyhow::Result<bool> {
    let (id, most_lines, now) = (job.key.parse()?, app.settings.payout_max_lines.get().into(), clock::now());
    let step = app.db.tx(async |tx| {
        let goes_on = ops::payout_run::pay_next(tx, id, most_lines, now).await?;
        if !goes_on {
            job.done(tx).await?;
        }
        Ok::<_, Error>(goes_on)
    });
    Ok(step.await?)
}
