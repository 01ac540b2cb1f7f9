//! The topics that a relay may send to. A missing one holds up its own events and no others: librdkafka
//! would take them, fail them half a minute later, and the batch would be sent again without end.

use std::collections::HashSet;
use std::time::Duration;

use rdkafka::error::KafkaResult;
use rdkafka::producer::{FutureProducer, Producer};
use tokio::time::Instant;

use crate::config::Quiet;

/// How long the broker may take to tell of a topic.
const PATIENCE: Duration = Duration::from_secs(5);
/// How soon a topic that is missing is looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct Destinations {
    found: HashSet<String>,
    missing: HashSet<String>,
    looked: Option<Instant>,
}

impl Destinations {
    /// The topics that are not worth asking about yet.
    pub fn missing(&mut self) -> Vec<&str> {
        if self.looked.is_some_and(|looked| looked.elapsed() >= LOOK_AGAIN) {
            self.missing.clear();
            self.looked = None;
        }
        self.missing.iter().map(String::as_str).collect()
    }

    /// Whether the topic is there; waits for a broker to tell.
    pub async fn has(&mut self, producer: &FutureProducer<Quiet>, topic: &str) -> bool {
        if self.found.contains(topic) {
            return true;
        }
        if self.missing.contains(topic) {
            return false;
        }
        let exists = loop {
            match look(producer.clone(), topic.to_owned()).await {
                Ok(exists) => break exists,
                Err(error) => tracing::warn!(%error, topic, "no broker tells of a topic"),
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        if exists {
            self.found.insert(topic.to_owned());
        } else {
            tracing::warn!(topic, "events wait for their topic");
            self.missing.insert(topic.to_owned());
            self.looked.get_or_insert_with(Instant::now);
        }
        exists
    }
}

async fn look(producer: FutureProducer<Quiet>, topic: String) -> anyhow::Result<bool> {
    let metadata = move || -> KafkaResult<bool> {
        let metadata = producer.client().fetch_metadata(Some(&topic), PATIENCE)?;
        Ok(metadata.topics().iter().any(|topic| !topic.partitions().is_empty()))
    };
    // librdkafka's call blocks.
    Ok(tokio::task::spawn_blocking(metadata).await??)
}
