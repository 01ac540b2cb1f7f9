//! The metrics of jobs: the attempts of a replica, and the waiting jobs in the table.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use db::{Db, Error};
use diesel::sql_types::{Array, Double, Integer, Text};
use diesel_async::RunQueryDsl;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use runtime::MetricsAge;
use tokio_util::sync::CancellationToken;

const UPDATE_INTERVAL: Duration = Duration::from_secs(10);

pub(crate) struct Metrics {
    pub done: Counter,
    pub failed: Counter,
    pub delay_seconds: Histogram,
    pub duration_seconds: Histogram,
}

impl Metrics {
    pub fn register(metrics: &runtime::Metrics, kind: &'static str) -> Self {
        let histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 18));
        let registered = Self {
            done: Counter::default(),
            failed: Counter::default(),
            delay_seconds: histogram(),
            duration_seconds: histogram(),
        };
        metrics.register(|registry| {
            // Not `job`: Prometheus uses that label for the scraped target.
            let registry = registry.sub_registry_with_label(("kind".into(), kind.into()));
            registry.register("jobs_done", "Completed jobs", registered.done.clone());
            registry.register("jobs_failed", "Failed attempts, which are retried", registered.failed.clone());
            registry.register(
                "jobs_late_seconds",
                "Time from a job's due time to its start",
                registered.delay_seconds.clone(),
            );
            registry.register("jobs_seconds", "Duration of an attempt", registered.duration_seconds.clone());
        });
        registered
    }
}

/// The metrics of waiting jobs. Every process that runs workers reports them for the whole service.
pub(crate) struct WaitingJobs {
    db: Db,
    gauges: HashMap<&'static str, WaitingGauges>,
    age: MetricsAge,
}

#[derive(Default)]
struct WaitingGauges {
    oldest_seconds: Gauge<f64, AtomicU64>,
    attempts_max: Gauge,
}

#[derive(diesel::QueryableByName)]
struct Waiting {
    #[diesel(sql_type = Text)]
    kind: String,
    #[diesel(sql_type = Double)]
    oldest_seconds: f64,
    #[diesel(sql_type = Integer)]
    attempts_max: i32,
}

impl WaitingJobs {
    pub fn register(metrics: &runtime::Metrics, db: Db, kinds: Vec<&'static str>) -> Self {
        let mut gauges = HashMap::new();
        for kind in kinds {
            let of_kind: &WaitingGauges = gauges.entry(kind).or_default();
            metrics.register(|registry| {
                let registry = registry.sub_registry_with_label(("kind".into(), kind.into()));
                registry.register(
                    "jobs_oldest_seconds",
                    "Time since the due time of the job that has waited for the longest time",
                    of_kind.oldest_seconds.clone(),
                );
                registry.register(
                    "jobs_attempts_max",
                    "Attempts of the job that has failed most often, 0 if none has failed",
                    of_kind.attempts_max.clone(),
                );
            });
        }
        Self { db, gauges, age: MetricsAge::register(metrics, "jobs") }
    }

    /// Updates the metrics until `stopping`.
    ///
    /// Never fails. [`Process::spawn`](runtime::Process::spawn) requires the `Result`.
    pub async fn run(mut self, stopping: CancellationToken) -> anyhow::Result<()> {
        loop {
            let result = self.update().await;
            self.age.record(result.is_ok());
            if let Err(error) = result {
                tracing::warn!(%error, "failed to read the waiting jobs");
            }
            tokio::select! {
                () = tokio::time::sleep(UPDATE_INTERVAL) => {}
                () = stopping.cancelled() => return Ok(()),
            }
        }
    }

    async fn update(&self) -> Result<(), Error> {
        let kinds: Vec<_> = self.gauges.keys().copied().collect();
        let waiting = diesel::sql_query(
            "select kind, \
             coalesce((select extract(epoch from clock_timestamp() - due_at) from job \
             where job.kind = kinds.kind and due_at <= clock_timestamp() order by due_at limit 1), 0)::float8 \
             as oldest_seconds, \
             coalesce((select attempts from job where job.kind = kinds.kind and attempts > 1 \
             order by attempts desc limit 1), 0) as attempts_max \
             from unnest($1) as kinds (kind)",
        );
        let waiting = waiting.bind::<Array<Text>, _>(kinds);
        for row in waiting.load::<Waiting>(&mut self.db.conn().await?).await? {
            if let Some(gauges) = self.gauges.get(row.kind.as_str()) {
                gauges.oldest_seconds.set(row.oldest_seconds.max(0.0));
                gauges.attempts_max.set(row.attempts_max.into());
            }
        }
        Ok(())
    }
}
