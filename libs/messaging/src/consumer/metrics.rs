//! The metrics of a consumer group.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use runtime::Metrics;

#[derive(Clone, Default)]
pub(super) struct ConsumerMetrics {
    pub applied: Counter,
    pub duplicates: Counter,
    pub retries: Counter,
    pub dead_letters: Counter,
    pub superseded: Counter,
    pub split_batches: Counter,
    pub went_back: Counter,
    pub rewound: Counter,
    pub paused: Gauge,
    pub buffer: BufferMetrics,
}

/// The metrics of the buffers of a replica and of its lag.
#[derive(Clone, Default)]
pub(super) struct BufferMetrics {
    pub lag: Gauge,
    pub oldest: Gauge<f64, AtomicU64>,
    pub bytes: Gauge,
    pub readable: Gauge,
}

impl ConsumerMetrics {
    pub fn register(metrics: &Metrics, group: &'static str) -> Self {
        let registered = Self::default();
        metrics.register(|registry| {
            let registry = registry.sub_registry_with_label(("consumer".into(), group.into()));
            let Self { applied, duplicates, retries, dead_letters, superseded, .. } = registered.clone();
            let Self { split_batches, went_back, rewound, paused, buffer, .. } = registered.clone();
            registry.register("consumer_applied", "Messages applied", applied);
            registry.register("consumer_duplicates", "Messages dropped as already applied", duplicates);
            registry.register("consumer_retries", "Failed attempts that are followed by another", retries);
            registry.register("consumer_dead_letters", "Messages dead-lettered", dead_letters);
            let help = "Dead letters that a later state of their key made unnecessary";
            registry.register("consumer_dead_letters_superseded", help, superseded);
            let help = "Batches that failed, so that each message was processed alone";
            registry.register("consumer_split_batches", help, split_batches);
            let help = "Messages applied whose sequence is not above the last one of their key";
            registry.register("consumer_sequence_went_back", help, went_back);
            let help = "Partitions moved back because the database may have lost their receipts";
            registry.register("consumer_rewound_partitions", help, rewound);
            registry.register("consumer_paused", "1 while every message fails in the database", paused);
            let BufferMetrics { lag, oldest, bytes, readable } = buffer;
            registry.register("consumer_lag", "Consumer lag of the assigned partitions, in messages", lag);
            registry.register("consumer_oldest_seconds", "Age of the oldest buffered message", oldest);
            registry.register("consumer_held_bytes", "Bytes of buffered messages", bytes);
            let help = "Assigned partitions while a broker is connected, else 0";
            registry.register("consumer_readable_partitions", help, readable);
        });
        registered
    }
}
