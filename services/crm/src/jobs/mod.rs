//! What this service does by itself.

mod booking_expiry;

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    booking_expiry::add(app, jobs)
}
