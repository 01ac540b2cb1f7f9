//! `project-figures`: adds up what projects offer where something has changed, so that who asks has little left to add.

use std::sync::Arc;
use std::time::Duration;

use ::jobs::Jobs;

use crate::app::App;
use crate::db;

const INTERVAL: Duration = Duration::from_secs(2);
const BATCH: i64 = 100;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.periodic("project-figures", INTERVAL, move |_| {
        let app = app.clone();
        async move {
            while app.db.tx(async |tx| db::project::renew_figures(tx, BATCH).await).await? == BATCH {}
            Ok(())
        }
    })
}
