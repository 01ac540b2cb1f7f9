//! `post-revisions` deletes old revisions, and those that exceed the limit of their author.

use std::sync::Arc;
use std::time::Duration;

use ::jobs::Jobs;

use crate::app::App;
use crate::error::Error;
use crate::{db, ops};

const INTERVAL: Duration = Duration::from_secs(30);
/// Retention of a revision.
const RETENTION: time::Duration = time::Duration::days(90);

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.periodic("post-revisions", INTERVAL, move |job| {
        let app = app.clone();
        async move {
            let before = runtime::clock::now() - RETENTION;
            loop {
                job.check_ending()?;
                let purged = app.db.tx(async |tx| db::revision::purge(tx, before).await).await;
                if purged.map_err(Error::from)? == 0 {
                    break;
                }
            }
            Ok(ops::revision::trim_revisions(&app.db, app.quotas).await?)
        }
    })
}
