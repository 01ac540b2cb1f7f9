//! Forgets what nobody waits for any longer: what streams were told, and what was told of deals that never came.

use std::sync::Arc;
use std::time::Duration;

use ::jobs::Jobs;
use messaging::{Handler, Thing};
use runtime::clock;

use crate::app::App;
use crate::consumers::Deals;
use crate::db;

/// Rows that go in one transaction.
const BATCH: u32 = 5_000;

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
/// So long a change waits for its deal.
const PATIENCE: Duration = Duration::from_hours(30 * 24);

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    let streams = app.clone();
    let jobs = jobs.periodic("stream-retention", MINUTE, move |_| {
        let app = streams.clone();
        async move {
            let retention = app.settings.stream.retention;
            let forget = async || app.db.tx(async |tx| db::stream::forget(tx, retention, BATCH).await).await;
            while forget().await? == BATCH as usize {}
            Ok(())
        }
    });
    jobs.periodic("kept-deal-retention", HOUR, move |_| {
        let app = app.clone();
        async move {
            let since = clock::now() - PATIENCE;
            let forget =
                async || app.db.tx(async |tx| Thing::forget(tx, Deals::GROUP, since, BATCH).await).await;
            while forget().await? == BATCH as usize {}
            Ok(())
        }
    })
}
