//! What this service does by itself.

mod object_propagation;
mod project_recount;

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    object_propagation::add(app.clone(), project_recount::add(app, jobs))
}
