//! What the jobs of a kind tell of themselves.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

pub(crate) struct Metrics {
    pub done: Counter,
    pub failed: Counter,
    pub late: Histogram,
    pub seconds: Histogram,
}

impl Metrics {
    pub fn register(metrics: &runtime::Metrics, kind: &'static str) -> Self {
        let histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 18));
        let kept = Self {
            done: Counter::default(),
            failed: Counter::default(),
            late: histogram(),
            seconds: histogram(),
        };
        metrics.register(|registry| {
            // Not `job`: that is what Prometheus calls whom it scrapes.
            let registry = registry.sub_registry_with_label(("kind".into(), kind.into()));
            registry.register("jobs_done", "Jobs done", kept.done.clone());
            registry.register("jobs_failed", "Attempts that will be repeated", kept.failed.clone());
            registry.register("jobs_late_seconds", "From a job's time to its beginning", kept.late.clone());
            registry.register("jobs_seconds", "How long an attempt took", kept.seconds.clone());
        });
        kept
    }
}
