//! The topics to which a relay may send.
//!
//! A topic that is missing, or to which the service may not write, delays only its own events. If
//! the topic is missing, librdkafka accepts the event and reports the failure half a minute later.
//! Without a check before the send, the relay would send the batch again and again. Events of a
//! forbidden topic are not parked, since an operator would have to release each key.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rdkafka::error::{KafkaResult, RDKafkaErrorCode};
use rdkafka::producer::{FutureProducer, Producer};
use tokio::time::Instant;

use crate::config::QuietContext;

const METADATA_TIMEOUT: Duration = Duration::from_secs(5);
const METADATA_RETRY_INTERVAL: Duration = Duration::from_secs(1);
const HELD_TOPIC_RECHECK_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct Destinations {
    existing: HashSet<String>,
    /// Topics whose events wait.
    held: HashMap<String, Hold>,
}

struct Hold {
    check_at: Instant,
    state: HoldState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HoldState {
    Missing,
    Forbidden,
    /// A batch was sent as the check. Its result is not known yet.
    Checking,
}

impl Destinations {
    /// Returns the number of held topics.
    pub fn held_count(&self) -> usize {
        self.held.len()
    }

    /// Returns the held topics whose events the next batch must leave out.
    ///
    /// A topic whose check is due is not among them: the next batch sends its events as the check.
    /// Later batches leave the topic out until the result is known. If the interval passes without
    /// a result, the batch had no event of the topic, and the topic is no longer held.
    pub fn topics_to_skip(&mut self) -> Vec<&str> {
        let now = Instant::now();
        self.held.retain(|_, hold| hold.check_at > now || hold.state != HoldState::Checking);
        let mut skipped = Vec::new();
        for (topic, hold) in &mut self.held {
            if hold.check_at > now {
                skipped.push(topic.as_str());
            } else {
                *hold = Hold { check_at: now + HELD_TOPIC_RECHECK_INTERVAL, state: HoldState::Checking };
            }
        }
        skipped
    }

    /// Holds the events of a topic to which the service may not write.
    pub fn hold_forbidden(&mut self, topic: &str) {
        // librdkafka caches the authorization error until it fetches the topic's metadata. The next
        // check fetches them, because the topic no longer counts as existing.
        self.existing.remove(topic);
        if self.hold(topic, HoldState::Forbidden) {
            tracing::error!(topic, "not authorized to write to topic; its events wait");
        }
    }

    /// Holds a topic until a later check. Returns false if the topic was held before.
    fn hold(&mut self, topic: &str, state: HoldState) -> bool {
        let hold = Hold { check_at: Instant::now() + HELD_TOPIC_RECHECK_INTERVAL, state };
        self.held.insert(topic.to_owned(), hold).is_none()
    }

    /// Releases a topic after it has accepted an event.
    pub fn release(&mut self, topic: &str) {
        if self.held.remove(topic).is_some() {
            tracing::info!(topic, "topic accepts events again");
        }
    }

    /// Returns true if the topic exists. Waits until a broker answers, unless the topic is held or
    /// is known to exist.
    pub async fn has_topic(&mut self, producer: &FutureProducer<QuietContext>, topic: &str) -> bool {
        if self.existing.contains(topic) {
            return true;
        }
        if self.held.get(topic).is_some_and(|hold| hold.state != HoldState::Checking) {
            return false;
        }
        let state = loop {
            match topic_state(producer.clone(), topic.to_owned()).await {
                Ok(state) => break state,
                Err(error) => tracing::warn!(%error, topic, "failed to fetch topic metadata"),
            }
            tokio::time::sleep(METADATA_RETRY_INTERVAL).await;
        };
        match state {
            TopicState::Existing => {
                self.existing.insert(topic.to_owned());
            }
            TopicState::Forbidden => self.hold_forbidden(topic),
            TopicState::Missing => {
                if self.hold(topic, HoldState::Missing) {
                    tracing::warn!(topic, "topic not found; its events wait");
                }
            }
        }
        state == TopicState::Existing
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TopicState {
    Existing,
    Missing,
    /// The service may not even read the topic's metadata.
    Forbidden,
}

async fn topic_state(producer: FutureProducer<QuietContext>, topic: String) -> anyhow::Result<TopicState> {
    let metadata = move || -> KafkaResult<TopicState> {
        let metadata = producer.client().fetch_metadata(Some(&topic), METADATA_TIMEOUT)?;
        let Some(topic) = metadata.topics().first() else { return Ok(TopicState::Missing) };
        let error = topic.error().map(RDKafkaErrorCode::from);
        Ok(if !topic.partitions().is_empty() {
            TopicState::Existing
        } else if error == Some(RDKafkaErrorCode::TopicAuthorizationFailed) {
            TopicState::Forbidden
        } else {
            TopicState::Missing
        })
    };
    // librdkafka's call blocks.
    Ok(tokio::task::spawn_blocking(metadata).await??)
}
