//! The background jobs of the service.

mod post_revisions;
mod post_schedule;
mod snapshot_detach_retry;

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    let jobs = post_schedule::add(app.clone(), post_revisions::add(app.clone(), jobs));
    snapshot_detach_retry::add(app, jobs)
}
