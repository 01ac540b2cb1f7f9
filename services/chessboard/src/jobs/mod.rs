//! The background jobs of the service.

mod feed_file;
mod feed_import;
mod object_propagation;
mod project_figures;
mod project_recount;

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    let jobs = project_recount::add(app.clone(), jobs);
    let jobs = project_figures::add(app.clone(), jobs);
    let jobs = feed_import::add(app.clone(), jobs);
    object_propagation::add(app, jobs)
}
