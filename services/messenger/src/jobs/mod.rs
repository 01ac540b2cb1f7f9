//! What this service does by itself.

mod conference_deadline;
mod media;

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    media::add(app.clone(), conference_deadline::add(app, jobs))
}
