//! The job `unrated-deals`: creates accruals for unrated deals once a card has a rate for them.

use std::sync::Arc;

use ::jobs::Jobs;
use runtime::clock;

use crate::app::App;
use crate::ops;
use crate::ops::deal::UNRATED_DEALS;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.periodic(UNRATED_DEALS, app.settings.unrated_poll_interval, move |job| {
        let app = app.clone();
        async move {
            let (mut last, mut is_done) = (None, false);
            while !is_done {
                job.check_stopping()?;
                let (limit, now) = (app.settings.approval_limit, clock::now());
                let accrue =
                    async |tx: &mut _| ops::deal::accrue_unrated(tx, last.as_ref(), limit, now).await;
                last = app.db.tx(accrue).await?;
                is_done = last.is_none();
            }
            Ok(())
        }
    })
}
