//! The age of metrics that a process reads from its database.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use crate::process::Metrics;

/// The time since the last successful update of other metrics, as the metric `metrics_age_seconds`.
///
/// A gauge keeps its last value while its updates fail. An alert on the gauge then neither fires
/// nor ends, and only the age shows the failure.
pub struct MetricsAge {
    updated_at: Instant,
    age: Gauge<f64, AtomicU64>,
}

impl MetricsAge {
    /// Registers the metric. `source` names what the other metrics describe.
    pub fn register(metrics: &Metrics, source: &'static str) -> Self {
        let age = Gauge::default();
        metrics.register(|registry| {
            let registry = registry.sub_registry_with_label(("source".into(), source.into()));
            let help = "Time since the last update of the metrics that are read from the database";
            registry.register("metrics_age_seconds", help, age.clone());
        });
        Self { updated_at: Instant::now(), age }
    }

    /// Records the end of an update of all metrics of the source.
    pub fn record(&mut self, is_updated: bool) {
        if is_updated {
            self.updated_at = Instant::now();
        }
        let age = if is_updated { 0.0 } else { self.updated_at.elapsed().as_secs_f64() };
        self.age.set(age);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::MetricsAge;
    use crate::process::Metrics;

    /// RULE-ALL-052: the age of metrics grows while their updates fail, and is 0 after a success.
    #[test]
    fn age_grows_until_an_update_succeeds() {
        let mut age = MetricsAge::register(&Metrics::default(), "backlog");
        age.updated_at -= Duration::from_secs(90);
        age.record(false);
        assert!(age.age.get() >= 90.0, "{}", age.age.get());
        age.record(true);
        assert!(age.age.get() < f64::EPSILON, "{}", age.age.get());
    }
}
