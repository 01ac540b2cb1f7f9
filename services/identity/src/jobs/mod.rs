//! The background jobs of the service.

mod machine_client;

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    machine_client::add(app, jobs)
}
