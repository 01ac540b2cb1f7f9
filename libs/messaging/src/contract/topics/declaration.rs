//! The declaration of topics: their partitions, replicas and retention.

use anyhow::Context;
use serde::Deserialize;

const BUILT_IN: &str = include_str!("../../../../../deploy/kafka/topics.yaml");

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The declared topics.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topics {
    /// `None` means the default of the brokers.
    replicas: Option<Replicas>,
    dead_letters: TopicConfig,
    topics: Vec<Topic>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replicas {
    count: i32,
    in_sync: i32,
}

/// A declared topic.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topic {
    pub name: String,
    /// The service that creates the topic. It publishes to it, or consumes it if another system
    /// publishes to it.
    pub owner: String,
    /// The meaning of the message key, for readers of the declaration.
    pub key: String,
    pub partitions: i32,
    /// `None` means that the topic is compacted: the newest message of each key is kept for ever.
    pub retention_days: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TopicConfig {
    partitions: i32,
    retention_days: Option<u64>,
}

/// The parameters with which a topic is created.
#[derive(Debug, PartialEq, Eq)]
pub struct TopicSpec {
    pub partitions: i32,
    /// `None` means the default of the brokers.
    pub replicas: Option<i32>,
    pub settings: Vec<(&'static str, String)>,
}

/// Returns the topic to which `service` copies the dead letters of `topic`.
pub fn dead_letter_topic(topic: &str, service: &str) -> String {
    format!("{topic}.{service}.dlq")
}

impl Topics {
    /// Returns the declaration that is compiled into the binary.
    pub fn built_in() -> anyhow::Result<Self> {
        yaml_serde::from_str(BUILT_IN).context("failed to read deploy/kafka/topics.yaml")
    }

    /// Replaces the declared number of replicas with the brokers' default, for local clusters.
    #[must_use]
    pub fn with_default_replication(self) -> Self {
        Self { replicas: None, ..self }
    }

    /// Returns all topics except dead-letter topics, which are derived from the subscriptions.
    pub fn topics(&self) -> &[Topic] {
        &self.topics
    }

    /// Returns true if `service` creates the topic. A service creates its own topics and the
    /// dead-letter topics of its consumers.
    pub fn is_created_by(&self, service: &str, name: &str) -> bool {
        self.topics.iter().any(|topic| {
            (topic.name == name && topic.owner == service) || dead_letter_topic(&topic.name, service) == name
        })
    }

    /// Returns the parameters of a topic, or `None` for a topic that is not declared.
    pub fn spec(&self, name: &str) -> Option<TopicSpec> {
        let config = self.config(name)?;
        let replicas = self.replicas.as_ref().map(|replicas| replicas.count);
        Some(TopicSpec { partitions: config.partitions, replicas, settings: self.settings(config) })
    }

    /// Returns the retention in days of each declared topic that is not compacted.
    pub(crate) fn retention_days(&self) -> Vec<(String, i32)> {
        let days = |topic: &Topic| topic.retention_days.and_then(|days| i32::try_from(days).ok());
        self.topics.iter().filter_map(|topic| Some((topic.name.clone(), days(topic)?))).collect()
    }

    fn config(&self, name: &str) -> Option<TopicConfig> {
        if let Some(topic) = self.topics.iter().find(|topic| topic.name == name) {
            return Some(TopicConfig { partitions: topic.partitions, retention_days: topic.retention_days });
        }
        let (source, _) = name.strip_suffix(".dlq")?.rsplit_once('.')?;
        self.topics.iter().any(|topic| topic.name == source).then_some(self.dead_letters)
    }

    fn settings(&self, config: TopicConfig) -> Vec<(&'static str, String)> {
        let mut settings = match config.retention_days {
            Some(days) => vec![("retention.ms", (days * DAY_MS).to_string())],
            None => vec![("cleanup.policy", "compact".to_owned())],
        };
        if let Some(replicas) = &self.replicas {
            settings.push(("min.insync.replicas", replicas.in_sync.to_string()));
        }
        settings
    }
}
