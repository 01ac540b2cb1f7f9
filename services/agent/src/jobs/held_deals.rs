//! How many deals are held, as a metric that every replica reports.

use std::time::Duration;

use actix_web::web::Data;
use prometheus_client::metrics::gauge::Gauge;
use runtime::{Phase, Process};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::db;

const INTERVAL: Duration = Duration::from_secs(10);

pub fn watch(app: Data<App>, process: &Process) {
    let held = Gauge::default();
    process.metrics().register(|registry| {
        let about = "Deals of which nothing is paid, since more is known of them than the ledger has applied";
        registry.register("agent_held_deals", about, held.clone());
    });
    process.spawn(Phase::Work, "held-deals", |ending| look(app, held, ending));
}

/// Looks every ten seconds until `ending`.
async fn look(app: Data<App>, held: Gauge, ending: CancellationToken) -> anyhow::Result<()> {
    loop {
        match count(&app).await {
            Ok(count) => {
                held.set(count);
            }
            Err(error) => tracing::warn!(%error, "held deals cannot be counted"),
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = ending.cancelled() => return Ok(()),
        }
    }
}

async fn count(app: &App) -> Result<i64, ::db::Error> {
    let mut conn = app.db.conn().await?;
    Ok(db::deal::count_held(&mut conn).await?)
}
