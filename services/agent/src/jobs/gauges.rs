//! The metrics `agent_held_deals` and `agent_ledger_mismatches`. Every worker reads them from the
//! database, so all replicas report the same values.

use std::time::Duration;

use actix_web::web::Data;
use prometheus_client::metrics::gauge::Gauge;
use runtime::{MetricsAge, Phase, Process};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::db;

const READ_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Gauges {
    held_deals: Gauge,
    ledger_mismatches: Gauge,
}

/// Registers the gauges and starts the task that updates them.
pub fn spawn_gauges(app: Data<App>, process: &Process) {
    let gauges = Gauges::default();
    process.metrics().register(|registry| {
        let help = "Deals with a newer version than the ledger has applied; payouts leave them out";
        registry.register("agent_held_deals", help, gauges.held_deals.clone());
        let help = "Accounts and payouts that differed from their accruals at the last audit";
        registry.register("agent_ledger_mismatches", help, gauges.ledger_mismatches.clone());
    });
    let age = MetricsAge::register(process.metrics(), "ledger");
    process.spawn(Phase::Work, "gauges", |stopping| gauges.update_repeatedly(app, age, stopping));
}

impl Gauges {
    async fn update_repeatedly(
        self,
        app: Data<App>,
        mut age: MetricsAge,
        stopping: CancellationToken,
    ) -> anyhow::Result<()> {
        loop {
            let result = self.update(&app).await;
            age.record(result.is_ok());
            if let Err(error) = result {
                tracing::warn!(error = format!("{error:#}"), "failed to read the state of the ledger");
            }
            tokio::select! {
                () = tokio::time::sleep(READ_INTERVAL) => {}
                () = stopping.cancelled() => return Ok(()),
            }
        }
    }

    async fn update(&self, app: &App) -> Result<(), ::db::Error> {
        let mut conn = app.db.conn().await?;
        self.held_deals.set(db::deal::count_held(&mut conn).await?);
        self.ledger_mismatches.set(db::audit::last_mismatches(&mut conn).await?);
        Ok(())
    }
}
