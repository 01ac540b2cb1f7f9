//! Background jobs, and metrics that a worker measures.

mod gauges;
mod ledger_audit;
mod payout_run;
mod unrated_deals;

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;

pub use gauges::spawn_gauges;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    let jobs = ledger_audit::add(app.clone(), payout_run::add(app.clone(), jobs));
    unrated_deals::add(app, jobs)
}
