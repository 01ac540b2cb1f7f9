//! The metric `agent_held_deals`, which every worker reports.

use std::time::Duration;

use actix_web::web::Data;
use prometheus_client::metrics::gauge::Gauge;
use runtime::{Phase, Process};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::db;

const COUNT_INTERVAL: Duration = Duration::from_secs(10);

/// Registers the gauge and starts the task that updates it.
pub fn spawn_held_deals_gauge(app: Data<App>, process: &Process) {
    let gauge = Gauge::default();
    process.metrics().register(|registry| {
        let help = "Deals with a newer version than the ledger has applied; payouts leave them out";
        registry.register("agent_held_deals", help, gauge.clone());
    });
    process.spawn(Phase::Work, "held-deals", |stop| update_gauge(app, gauge, stop));
}

async fn update_gauge(app: Data<App>, held: Gauge, stop: CancellationToken) -> anyhow::Result<()> {
    loop {
        match count(&app).await {
            Ok(count) => {
                held.set(count);
            }
            Err(error) => tracing::warn!(error = format!("{error:#}"), "failed to count held deals"),
        }
        tokio::select! {
            () = tokio::time::sleep(COUNT_INTERVAL) => {}
            () = stop.cancelled() => return Ok(()),
        }
    }
}

async fn count(app: &App) -> anyhow::Result<i64> {
    let mut conn = app.db.conn().await?;
    Ok(db::deal::count_held(&mut conn).await.map_err(::db::Error::from)?)
}
