//! The job `payout-run`: pays a run account by account, each in a transaction of its own.
//!
//! The run stores the last account, so that another replica can continue after a crash.

use std::sync::Arc;

use ::jobs::{Job, Jobs};
use runtime::clock;

use crate::app::App;
use crate::error::Error;
use crate::ops;
use crate::ops::payout_run::PAYOUT_RUN;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.due_with_poll_interval(PAYOUT_RUN, app.settings.payout_run_poll_interval, move |job| {
        let app = app.clone();
        async move {
            while pay_next(&app, &job).await? {
                job.check_ending()?;
            }
            Ok(())
        }
    })
}

/// Pays the next account. Returns false if the run is completed.
async fn pay_next(app: &App, job: &Job) -> anyhow::Result<bool> {
    let (id, max_lines, now) = (job.key.parse()?, app.settings.payout_max_lines.get().into(), clock::now());
    let step = app.db.tx(async |tx| {
        let has_more = ops::payout_run::pay_next(tx, id, max_lines, now).await?;
        if !has_more {
            job.complete(tx).await?;
        }
        Ok::<_, Error>(has_more)
    });
    Ok(step.await?)
}
