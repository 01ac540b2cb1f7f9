//! `ledger-audit`: holds accounts against accruals, and payouts against their lines. It repairs nothing.

use std::sync::Arc;

use ::jobs::Jobs;
use prometheus_client::metrics::gauge::Gauge;
use runtime::Process;

use crate::app::App;
use crate::db;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.periodic("ledger-audit", app.settings.ledger_audit, move |_| {
        let app = app.clone();
        async move {
            let found = app.db.tx(async |tx| db::audit::mismatches(tx).await).await?;
            if found > 0 {
                tracing::error!(found, "accounts or payouts are not what their accruals come to");
            }
            app.mismatches.set(found);
            Ok(())
        }
    })
}

/// What the last audit of this replica has found.
pub fn register(mismatches: &Gauge, process: &Process) {
    process.metrics().register(|registry| {
        let about =
            "Accounts and payouts that are not what their accruals come to, when this replica last looked";
        registry.register("agent_ledger_mismatches", about, mismatches.clone());
    });
}
