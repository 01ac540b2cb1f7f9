//! The background jobs of the service.

mod board_totals;
mod booking_expiry;

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    board_totals::add(app.clone(), booking_expiry::add(app, jobs))
}
