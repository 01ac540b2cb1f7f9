//! The metrics of the relay.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use runtime::Metrics;

pub(super) struct RelayMetrics {
    pub takeovers: Counter,
    pub fenced: Counter,
    pub history_changed: Counter,
    pub parked: Counter,
    pub held_topics: Gauge,
    pub commit_to_ack: Histogram,
}

impl RelayMetrics {
    pub fn register(metrics: &Metrics) -> Self {
        let registered = Self {
            takeovers: Counter::default(),
            fenced: Counter::default(),
            history_changed: Counter::default(),
            parked: Counter::default(),
            held_topics: Gauge::default(),
            commit_to_ack: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
        };
        metrics.register(|registry| {
            registry.register("outbox_takeovers", "Outbox leases acquired", registered.takeovers.clone());
            registry.register(
                "outbox_fenced",
                "Relay sessions that lost their lease or left unacknowledged messages",
                registered.fenced.clone(),
            );
            registry.register(
                "outbox_history_changed",
                "Changes of the database's history, after which new events were renumbered",
                registered.history_changed.clone(),
            );
            registry.register(
                "outbox_refused",
                "Events parked because the broker rejected them",
                registered.parked.clone(),
            );
            registry.register(
                "outbox_held_topics",
                "Topics whose events wait: missing, forbidden, or about to get more partitions",
                registered.held_topics.clone(),
            );
            registry.register(
                "outbox_commit_to_ack_seconds",
                "Time from the insertion of an event to its acknowledgement",
                registered.commit_to_ack.clone(),
            );
        });
        registered
    }
}
