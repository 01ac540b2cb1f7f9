//! Deletes old stream events, and deferred changes of deals that never became known.

use std::sync::Arc;
use std::time::Duration;

use ::jobs::Jobs;
use messaging::{EntityLock, Handler};
use runtime::clock;

use crate::app::App;
use crate::consumers::Deals;
use crate::db;

/// Rows that one transaction deletes.
const BATCH: u32 = 5_000;

const STREAM_DELETION_INTERVAL: Duration = Duration::from_mins(1);
const DEFERRED_CHANGE_DELETION_INTERVAL: Duration = Duration::from_hours(1);
/// Retention of a change whose deal is not known yet.
const DEFERRED_CHANGE_RETENTION: Duration = Duration::from_hours(30 * 24);

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    let stream_app = app.clone();
    let jobs = jobs.periodic("stream-retention", STREAM_DELETION_INTERVAL, move |job| {
        let app = stream_app.clone();
        async move {
            let retention = app.settings.stream.retention;
            let delete = async || {
                app.db.tx(async |tx| db::stream::delete_older_than(tx, retention, BATCH).await).await
            };
            while delete().await? == BATCH as usize {
                job.check_stopping()?;
            }
            Ok(())
        }
    });
    jobs.periodic("deferred-change-retention", DEFERRED_CHANGE_DELETION_INTERVAL, move |job| {
        let app = app.clone();
        async move {
            let before = clock::now() - DEFERRED_CHANGE_RETENTION;
            let delete = async || {
                app.db
                    .tx(async |tx| EntityLock::delete_deferred_before(tx, Deals::GROUP, before, BATCH).await)
                    .await
            };
            while delete().await? == BATCH as usize {
                job.check_stopping()?;
            }
            Ok(())
        }
    })
}
