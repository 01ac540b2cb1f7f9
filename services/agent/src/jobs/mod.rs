//! Background jobs, and metrics that a worker measures.

mod held_deals;
mod ledger_audit;
mod payout_run;
mod unrated_deals;

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;

pub use held_deals::spawn_held_deals_gauge;
pub use ledger_audit::register_mismatches_gauge;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    let jobs = ledger_audit::add(app.clone(), payout_run::add(app.clone(), jobs));
    unrated_deals::add(app, jobs)
}
