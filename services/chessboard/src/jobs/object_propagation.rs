//! The job `object-propagation` publishes the objects of a changed developer, project or building
//! in batches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::jobs::{Jobs, schedule};

use crate::app::App;
use crate::ops;

const KIND: &str = "object-propagation";

/// Maximum duration of a run. If work is left, the next run starts immediately, and any replica can
/// take it.
const MAX_RUN_TIME: Duration = Duration::from_secs(2);

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.periodic(KIND, app.settings.propagation_interval, move |job| {
        let app = app.clone();
        async move {
            let started = Instant::now();
            let batch = app.settings.propagation_batch.get();
            while app.db.tx(async |tx| ops::propagation::propagate_batch(tx, batch).await).await? {
                job.check_stopping()?;
                if started.elapsed() >= MAX_RUN_TIME {
                    let now = runtime::clock::now();
                    app.db.tx(async |tx| schedule(tx, KIND, [""], now).await).await?;
                    break;
                }
            }
            Ok(())
        }
    })
}
