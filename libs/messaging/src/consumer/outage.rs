//! The suspension of dead-lettering while the database fails for every message.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use crate::contract::message::Message;

/// The number of keys that must fail, without a success in between, before an outage is detected.
/// The likely cause is then a missing table or column, not the messages.
const MIN_OUTAGE_KEYS: usize = 5;
/// The time after which a failure no longer counts. It exceeds the longest pause between two
/// attempts of a message.
const FAILURE_EXPIRY: Duration = Duration::from_secs(30);

/// Detects that the database fails for every message of a group.
pub(super) struct OutageDetector {
    group: &'static str,
    paused: Gauge,
    failures: Mutex<Failures>,
    applied: AtomicU64,
}

/// The attempts of one message whose statement was too slow.
#[derive(Default)]
pub(super) struct SlowAttempts {
    count: u32,
    /// The number of applied messages at the last attempt.
    applied: u64,
}

impl SlowAttempts {
    /// Counts an attempt, and returns the count. After the first one, an attempt counts only if
    /// another message was applied since the previous attempt. Otherwise the database may be slow
    /// for every message.
    pub fn record(&mut self, outage: &OutageDetector) -> u32 {
        let applied = outage.applied.load(Ordering::Relaxed);
        if self.count == 0 || applied > self.applied {
            self.count += 1;
        }
        self.applied = applied;
        self.count
    }
}

/// The failures since the last message that was applied.
#[derive(Default)]
struct Failures {
    /// The topic and key of each failed message, or its id if it has no key.
    keys: HashSet<String>,
    last_at: Option<Instant>,
}

impl Failures {
    /// Returns true if enough keys have failed and the last failure is recent.
    /// Without a recent failure, the failing messages have moved to another replica.
    fn is_outage(&self) -> bool {
        self.keys.len() >= MIN_OUTAGE_KEYS && self.last_at.is_some_and(|last| last.elapsed() < FAILURE_EXPIRY)
    }
}

impl OutageDetector {
    pub fn new(group: &'static str, paused: Gauge) -> Self {
        Self { group, paused, failures: Mutex::default(), applied: AtomicU64::new(0) }
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_outage(&self) -> bool {
        self.failures().is_outage()
    }

    /// Records that the database failed for a message. Returns true during an outage.
    pub fn record_failure(&self, message: &Message, reason: &str) -> bool {
        let mut failures = self.failures();
        let was_outage = failures.is_outage();
        failures.last_at = Some(Instant::now());
        if failures.keys.len() < MIN_OUTAGE_KEYS {
            let Message { topic, key, id, .. } = message;
            failures.keys.insert(if key.is_empty() { id.clone() } else { format!("{topic} {key}") });
        }
        let is_outage = failures.is_outage();
        if is_outage && !was_outage {
            tracing::error!(
                group = self.group,
                reason,
                "every message fails in the database; dead-lettering suspended"
            );
            self.paused.set(1);
        }
        is_outage
    }

    /// Updates the metric. The failing messages may have moved to another replica, after which this
    /// replica records neither a failure nor a success.
    pub fn update_metric(&self) {
        let failures = self.failures();
        self.paused.set(failures.is_outage().into());
    }

    /// Records that a message was applied, which ends an outage.
    pub fn record_success(&self) {
        self.applied.fetch_add(1, Ordering::Relaxed);
        let mut failures = self.failures();
        if failures.keys.len() >= MIN_OUTAGE_KEYS {
            tracing::info!(group = self.group, "database accepted a message; dead-lettering resumed");
            self.paused.set(0);
        }
        *failures = Failures::default();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::metrics::gauge::Gauge;
    use serde_json::Map;

    use super::{FAILURE_EXPIRY, MIN_OUTAGE_KEYS, OutageDetector};
    use crate::contract::message::{KafkaPosition, Message};

    fn message(key: usize) -> Message {
        let position = KafkaPosition { partition: 0, offset: 0, published_at: None };
        Message::new("platform.shop.order-placed.v1".to_owned(), position, key.to_string(), Map::new(), None)
    }

    /// RULE-EVT-032: the metric of an outage ends in a replica whose failing messages have moved to
    /// another replica.
    #[test]
    fn outage_without_recent_failure_is_not_reported() {
        let paused = Gauge::default();
        let outage = OutageDetector::new("shop.orders", paused.clone());
        for key in 0..MIN_OUTAGE_KEYS {
            outage.record_failure(&message(key), "a table is missing");
        }
        outage.update_metric();
        assert_eq!(paused.get(), 1);
        if let Some(last) = &mut outage.failures().last_at {
            *last -= FAILURE_EXPIRY + Duration::from_secs(1);
        }
        outage.update_metric();
        assert_eq!(paused.get(), 0);
        outage.record_failure(&message(0), "a table is missing");
        assert_eq!(paused.get(), 1);
    }
}
