//! The job `project-figures` adds up the figures of projects whose buildings changed.
//!
//! Without the job, a request for facets would add up the buildings of more and more projects.

use std::sync::Arc;
use std::time::Duration;

use ::jobs::Jobs;

use crate::app::App;
use crate::db;

const INTERVAL: Duration = Duration::from_secs(2);
const BATCH_SIZE: i64 = 100;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.periodic("project-figures", INTERVAL, move |job| {
        let app = app.clone();
        async move {
            while app.db.tx(async |tx| db::project::renew_figures(tx, BATCH_SIZE).await).await? == BATCH_SIZE
            {
                job.check_stopping()?;
            }
            Ok(())
        }
    })
}
