//! The metric of waiting external profiles, which every worker reports.

use std::time::Duration;

use ::db::Db;
use prometheus_client::metrics::gauge::Gauge;
use runtime::{MetricsAge, Phase, Process};

use crate::db;

const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Updates the metric every [`POLL_INTERVAL`] until the process stops.
pub fn report_waiting_profiles(db: Db, process: &Process) {
    let waiting = Gauge::<i64>::default();
    process.metrics().register(|registry| {
        let help = "External profiles that wait for their company, or for the release of another profile";
        registry.register("outside_profiles_waiting", help, waiting.clone());
    });
    let mut age = MetricsAge::register(process.metrics(), "external-profiles");
    process.spawn(Phase::Work, "waiting external profiles", |stopping| async move {
        loop {
            let result = count_waiting(&db).await;
            age.record(result.is_ok());
            match result {
                Ok(count) => drop(waiting.set(count)),
                Err(error) => tracing::warn!(%error, "failed to count waiting external profiles"),
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = stopping.cancelled() => return Ok(()),
            }
        }
    });
}

async fn count_waiting(db: &Db) -> Result<i64, ::db::Error> {
    db::external_profile::count(&mut *db.conn().await?).await
}
