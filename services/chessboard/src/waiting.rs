//! How many outside profiles wait, as a metric that every worker reports.

use std::time::Duration;

use ::db::Db;
use prometheus_client::metrics::gauge::Gauge;
use runtime::{Phase, Process};

use crate::db;

const INTERVAL: Duration = Duration::from_secs(10);

/// Looks every ten seconds, until the process ends.
pub fn watch(db: Db, process: &Process) {
    let waiting = Gauge::<i64>::default();
    process.metrics().register(|registry| {
        let about = "Profiles of the outside system whose company is unknown, or has another one's profile";
        registry.register("outside_profiles_waiting", about, waiting.clone());
    });
    process.spawn(Phase::Work, "waiting outside profiles", |ending| async move {
        loop {
            match look(&db).await {
                Ok(count) => drop(waiting.set(count)),
                Err(error) => tracing::warn!(%error, "waiting outside profiles cannot be counted"),
            }
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                () = ending.cancelled() => return Ok(()),
            }
        }
    });
}

async fn look(db: &Db) -> Result<i64, ::db::Error> {
    db::outside_profile::count(&mut *db.conn().await?).await
}
