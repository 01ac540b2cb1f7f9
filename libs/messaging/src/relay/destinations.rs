//! The topics to which a relay may send.
//!
//! A missing topic delays only its own events. librdkafka would accept such an event and fail it
//! half a minute later, and the batch would be sent again without end.

use std::collections::HashSet;
use std::time::Duration;

use rdkafka::error::KafkaResult;
use rdkafka::producer::{FutureProducer, Producer};
use tokio::time::Instant;

use crate::config::QuietContext;

const METADATA_TIMEOUT: Duration = Duration::from_secs(5);
const METADATA_RETRY_INTERVAL: Duration = Duration::from_secs(1);
const MISSING_TOPIC_RECHECK_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct Destinations {
    existing: HashSet<String>,
    missing: HashSet<String>,
    /// The time at which the first of the missing topics was checked.
    checked_at: Option<Instant>,
}

impl Destinations {
    /// Returns the missing topics, or none if their next check is due.
    pub fn missing(&mut self) -> Vec<&str> {
        if self.checked_at.is_some_and(|checked| checked.elapsed() >= MISSING_TOPIC_RECHECK_INTERVAL) {
            self.missing.clear();
            self.checked_at = None;
        }
        self.missing.iter().map(String::as_str).collect()
    }

    /// Waits until a broker answers, and returns true if the topic exists.
    pub async fn has_topic(&mut self, producer: &FutureProducer<QuietContext>, topic: &str) -> bool {
        if self.existing.contains(topic) {
            return true;
        }
        if self.missing.contains(topic) {
            return false;
        }
        let exists = loop {
            match exists(producer.clone(), topic.to_owned()).await {
                Ok(exists) => break exists,
                Err(error) => tracing::warn!(%error, topic, "failed to fetch topic metadata"),
            }
            tokio::time::sleep(METADATA_RETRY_INTERVAL).await;
        };
        if exists {
            self.existing.insert(topic.to_owned());
        } else {
            tracing::warn!(topic, "topic not found; its events wait");
            self.missing.insert(topic.to_owned());
            self.checked_at.get_or_insert_with(Instant::now);
        }
        exists
    }
}

async fn exists(producer: FutureProducer<QuietContext>, topic: String) -> anyhow::Result<bool> {
    let metadata = move || -> KafkaResult<bool> {
        let metadata = producer.client().fetch_metadata(Some(&topic), METADATA_TIMEOUT)?;
        Ok(metadata.topics().iter().any(|topic| !topic.partitions().is_empty()))
    };
    // librdkafka's call blocks.
    Ok(tokio::task::spawn_blocking(metadata).await??)
}
