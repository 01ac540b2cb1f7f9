//! The jobs of the service.

mod conference_deadline;
mod employment_end;
mod media;
mod retention;

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    let jobs = conference_deadline::add(app.clone(), media::add(app.clone(), jobs));
    let jobs = employment_end::add(app.clone(), jobs);
    retention::add(app, jobs)
}
