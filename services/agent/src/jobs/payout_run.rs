//! The jobs `payout-run`. One divides a run into parts. Each of the others pays one part, with a
//! transaction for each account.
//!
//! A part stores its last account, so that another replica can continue after a crash.

use std::sync::Arc;

use ::jobs::{Job, Jobs};
use runtime::clock;

use crate::app::App;
use crate::domain::PayoutRunId;
use crate::error::Error;
use crate::ops;
use crate::ops::payout_run::PAYOUT_RUN;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.due_with_poll_interval(PAYOUT_RUN, app.settings.payout_run_poll_interval, move |job| {
        let app = app.clone();
        async move {
            let Some((run, part)) = job.key.split_once('/') else { return divide(&app, &job).await };
            let part = (run.parse()?, part.parse()?);
            while pay_next(&app, &job, part).await? {
                job.check_stopping()?;
            }
            Ok(())
        }
    })
}

async fn divide(app: &App, job: &Job) -> anyhow::Result<()> {
    let (id, now) = (job.key.parse()?, clock::now());
    let divided = app.db.tx(async |tx| {
        ops::payout_run::divide(tx, id, now).await?;
        job.complete(tx).await?;
        Ok::<_, Error>(())
    });
    Ok(divided.await?)
}

/// Pays the next account. Returns false if the part is paid.
async fn pay_next(app: &App, job: &Job, part: (PayoutRunId, i16)) -> anyhow::Result<bool> {
    let (max_lines, now) = (app.settings.payout_max_lines.get().into(), clock::now());
    let step = app.db.tx(async |tx| {
        let has_more = ops::payout_run::pay_next(tx, part, max_lines, now).await?;
        if !has_more {
            job.complete(tx).await?;
        }
        Ok::<_, Error>(has_more)
    });
    Ok(step.await?)
}
