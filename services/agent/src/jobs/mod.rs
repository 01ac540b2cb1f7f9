//! What this service does by itself.

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;

pub fn add(_app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs
}
