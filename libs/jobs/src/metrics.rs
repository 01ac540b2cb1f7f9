//! The metrics of the jobs of one kind.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

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
