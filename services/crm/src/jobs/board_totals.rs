//! The job `board-totals`: folds changes into the stored totals of steps, so that boards stay fast.

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;
use crate::db;

const KIND: &str = "board-totals";
const BATCH_SIZE: i64 = 10_000;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.periodic(KIND, app.settings.board_totals_interval, move |job| {
        let app = app.clone();
        async move {
            while app.db.tx(async |tx| db::board::fold_total_changes(tx, BATCH_SIZE).await).await?
                == BATCH_SIZE
            {
                job.check_stopping()?;
            }
            Ok(())
        }
    })
}
