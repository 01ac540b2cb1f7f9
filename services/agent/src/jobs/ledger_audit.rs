//! The job `ledger-audit`: compares accounts with accruals and payouts with lines.
//! The job repairs nothing.

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;
use crate::db;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.periodic("ledger-audit", app.settings.ledger_audit_interval, move |_| {
        let app = app.clone();
        async move {
            let found = app.db.tx(async |tx| db::audit::count_mismatches(tx).await).await?;
            if found > 0 {
                tracing::error!(found, "found accounts or payouts that differ from their accruals");
            }
            app.db.tx(async |tx| db::audit::save_mismatches(tx, found).await).await?;
            Ok(())
        }
    })
}
