//! Tells of the objects below what has changed: batch after batch, until there is nothing to tell.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::jobs::{Jobs, schedule};

use crate::app::App;
use crate::ops;

const KIND: &str = "object-propagation";

/// After so long a run makes room for the end of the process; the next one begins at once.
const LONGEST: Duration = Duration::from_secs(2);

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.periodic(KIND, app.settings.propagation_interval, move |_| {
        let app = app.clone();
        async move {
            let began = Instant::now();
            let batch = app.settings.propagation_batch.get();
            while app.db.tx(async |tx| ops::propagation::tell_next(tx, batch).await).await? {
                if began.elapsed() >= LONGEST {
                    let now = runtime::clock::now();
                    app.db.tx(async |tx| schedule(tx, KIND, [""], now).await).await?;
                    break;
                }
            }
            Ok(())
        }
    })
}
