//! What this service does by itself.

mod ledger_audit;
mod payout_run;

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;

pub use ledger_audit::register;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    ledger_audit::add(app.clone(), payout_run::add(app, jobs))
}
