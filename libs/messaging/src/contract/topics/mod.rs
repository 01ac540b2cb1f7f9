//! Topics are declared in `deploy/kafka/topics.yaml` and made by `migrate`, never by accident.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::types::RDKafkaErrorCode;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::Config;

const BUILT_IN: &str = include_str!("../../../../../deploy/kafka/topics.yaml");

/// How long a broker may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often topics are told of that are missing.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The declared topics.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topics {
    /// `None`: what the brokers do by default.
    replicas: Option<Replicas>,
    dead_letters: Shape,
    topics: Vec<Topic>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replicas {
    count: i32,
    in_sync: i32,
}

/// A topic of the platform.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topic {
    pub name: String,
    /// The service that publishes to it, which makes it.
    pub owner: String,
    /// What the key of its messages is.
    pub key: String,
    pub partitions: i32,
    /// `None`: the newest message of each key is kept for ever.
    pub retention_days: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    partitions: i32,
    retention_days: Option<u64>,
}

/// What a topic is made as.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    pub partitions: i32,
    /// `None`: as many as the brokers have by default.
    pub replicas: Option<i32>,
    pub settings: Vec<(&'static str, String)>,
}

/// What came of making topics. What was there already, and as declared, is in no list.
#[derive(Debug, Default)]
pub struct Outcome {
    pub made: Vec<String>,
    /// Those that are still missing, a sentence each.
    pub refused: Vec<String>,
    /// Those that are there but of another size, a sentence each.
    pub differing: Vec<String>,
}

/// The topic that a service puts aside into what it cannot apply of `topic`.
pub fn dead_letters(topic: &str, service: &str) -> String {
    format!("{topic}.{service}.dlq")
}

impl Topics {
    /// The declaration that this was compiled with.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn built_in() -> anyhow::Result<Self> {
        yaml_serde::from_str(BUILT_IN).context("deploy/kafka/topics.yaml")
    }

    /// The same topics, replicated as the brokers do by default: for clusters of one's own machine.
    #[must_use]
    pub fn replicated_by_default(self) -> Self {
        Self { replicas: None, ..self }
    }

    /// All but the dead-letter topics, which follow from who consumes.
    pub fn topics(&self) -> &[Topic] {
        &self.topics
    }

    /// Whether `service` is the one that makes the topic: its own, and its dead letters of another's.
    pub fn is_made_by(&self, service: &str, name: &str) -> bool {
        self.topics.iter().any(|topic| {
            (topic.name == name && topic.owner == service) || dead_letters(&topic.name, service) == name
        })
    }

    /// What a topic is made as; `None` if it is declared nowhere.
    pub fn layout(&self, name: &str) -> Option<Layout> {
        let shape = self.shape(name)?;
        let replicas = self.replicas.as_ref().map(|replicas| replicas.count);
        Some(Layout { partitions: shape.partitions, replicas, settings: self.settings(shape) })
    }

    fn shape(&self, name: &str) -> Option<Shape> {
        if let Some(topic) = self.topics.iter().find(|topic| topic.name == name) {
            return Some(Shape { partitions: topic.partitions, retention_days: topic.retention_days });
        }
        let (source, _) = name.strip_suffix(".dlq")?.rsplit_once('.')?;
        self.topics.iter().any(|topic| topic.name == source).then_some(self.dead_letters)
    }

    /// Makes those of `names` that are missing, as declared. What is there is left as it is.
    ///
    /// # Errors
    /// When no broker answers, or `client` has settings that librdkafka does not know.
    pub async fn make(&self, client: &ClientConfig, names: &[String]) -> anyhow::Result<Outcome> {
        let there = partitions(client).await?;
        let mut outcome = Outcome::default();
        let mut missing = Vec::new();
        for name in names {
            match (self.layout(name), there.get(name)) {
                (None, _) => outcome.refused.push(format!("{name} is declared nowhere")),
                (Some(layout), None) => missing.push((name, layout)),
                (Some(layout), Some(found)) if *found != layout.partitions => {
                    let declared = layout.partitions;
                    let text = format!("{name} has {found} partitions, not {declared}; it is left as it is");
                    outcome.differing.push(text);
                }
                (Some(_), Some(_)) => {}
            }
        }
        if missing.is_empty() {
            return Ok(outcome);
        }
        let new: Vec<_> = missing
            .iter()
            .map(|(name, layout)| {
                let replicas = TopicReplication::Fixed(layout.replicas.unwrap_or(-1));
                let new = NewTopic::new(name, layout.partitions, replicas);
                layout.settings.iter().fold(new, |new, (setting, value)| new.set(setting, value))
            })
            .collect();
        let admin: AdminClient<DefaultClientContext> = client.create()?;
        let options = AdminOptions::new().request_timeout(Some(PATIENCE)).operation_timeout(Some(PATIENCE));
        match admin.create_topics(&new, &options).await {
            Ok(results) => {
                for (result, (name, _)) in std::iter::zip(results, &missing) {
                    match result {
                        Ok(_) => outcome.made.push((*name).clone()),
                        // Another replica was first.
                        Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                        Err((_, error)) => outcome.refused.push(format!("{name} cannot be made: {error}")),
                    }
                }
            }
            Err(error) => {
                let refused = missing.iter().map(|(name, _)| format!("{name} cannot be made: {error}"));
                outcome.refused.extend(refused);
            }
        }
        Ok(outcome)
    }

    fn settings(&self, shape: Shape) -> Vec<(&'static str, String)> {
        let mut settings = match shape.retention_days {
            Some(days) => vec![("retention.ms", (days * DAY_MS).to_string())],
            None => vec![("cleanup.policy", "compact".to_owned())],
        };
        if let Some(replicas) = &self.replicas {
            settings.push(("min.insync.replicas", replicas.in_sync.to_string()));
        }
        settings
    }
}

/// Where `migrate` takes the topics from: the setting `KAFKA_TOPICS`.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    BuiltIn,
    /// They are made by other means.
    Elsewhere,
    Given(Topics),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BuiltIn => "built-in",
            Self::Elsewhere => "elsewhere",
            Self::Given(_) => "given",
        })
    }
}

impl FromStr for Source {
    type Err = yaml_serde::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "built-in" => Ok(Self::BuiltIn),
            "elsewhere" => Ok(Self::Elsewhere),
            yaml => yaml_serde::from_str(yaml).map(Self::Given),
        }
    }
}

impl Config {
    /// For how many days the topics that are not compacted keep their messages, of those that are declared.
    pub(crate) fn retention(&self) -> anyhow::Result<Vec<(String, i32)>> {
        let topics = match &self.topics {
            Source::Given(topics) => topics.topics.clone(),
            Source::BuiltIn | Source::Elsewhere => Topics::built_in()?.topics,
        };
        let days = |topic: &Topic| topic.retention_days.and_then(|days| i32::try_from(days).ok());
        Ok(topics
            .into_iter()
            .filter_map(|topic| Some((days(&topic)?, topic.name)))
            .map(|(days, name)| (name, days))
            .collect())
    }

    /// Makes the topics that are `service`'s to make of those that it uses. What cannot be made is told
    /// and is no failure: the schema is up to date all the same, and somebody else may make them.
    pub async fn make_topics(&self, service: &str, names: &[String]) -> anyhow::Result<()> {
        let topics = match &self.topics {
            Source::BuiltIn => Topics::built_in()?,
            Source::Elsewhere => return Ok(()),
            Source::Given(topics) => topics.clone(),
        };
        let own: Vec<_> = names.iter().filter(|name| topics.is_made_by(service, name)).cloned().collect();
        match topics.make(&self.client(), &own).await {
            Ok(outcome) => {
                for topic in outcome.made {
                    tracing::info!(topic, "made");
                }
                for difference in outcome.refused.iter().chain(&outcome.differing) {
                    tracing::warn!("{difference}");
                }
            }
            Err(error) => tracing::warn!(error = format!("{error:#}"), "no topics were made"),
        }
        Ok(())
    }

    /// Says which topics are missing, until none is. What reads or writes them waits by itself.
    ///
    /// # Errors
    /// Settings that librdkafka does not know.
    pub async fn watch_topics(self, names: Vec<String>, stopping: CancellationToken) -> anyhow::Result<()> {
        loop {
            // A broker that does not answer is told of by readiness.
            if let Ok(there) = partitions(&self.client()).await {
                let missing: Vec<_> = names.iter().filter(|name| !there.contains_key(*name)).collect();
                if missing.is_empty() {
                    return Ok(());
                }
                tracing::warn!(
                    ?missing,
                    "waiting for topics; `migrate` of the service that owns one makes it"
                );
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = stopping.cancelled() => return Ok(()),
            }
        }
    }
}

/// The topics that the brokers have, with the number of their partitions.
async fn partitions(client: &ClientConfig) -> anyhow::Result<HashMap<String, i32>> {
    let client: BaseProducer = client.create()?;
    // librdkafka's call blocks.
    let metadata =
        tokio::task::spawn_blocking(move || client.client().fetch_metadata(None, PATIENCE)).await??;
    let topics = metadata.topics().iter();
    Ok(topics
        .map(|topic| (topic.name().to_owned(), i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX)))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rdkafka::ClientConfig;
    use rdkafka::producer::{FutureProducer, FutureRecord};
    use runtime::Env;
    use testkit::broker::Embedded;

    use super::partitions;
    use crate::Config;

    /// Lets a client publish to a topic that is not there, and answers whether it is there then.
    async fn is_made_by(client: ClientConfig, topic: &str) -> bool {
        let producer: FutureProducer = client.create().unwrap();
        let sent = producer.send(FutureRecord::to(topic).key("1").payload("{}"), Duration::ZERO);
        // The client asks for the topic at once, and ours for a long time.
        let _ = tokio::time::timeout(Duration::from_secs(3), sent).await;
        partitions(&client).await.unwrap().contains_key(topic)
    }

    #[tokio::test]
    async fn no_client_of_ours_makes_a_topic_even_where_the_broker_would() {
        let broker = Embedded::start(&[]).unwrap();
        let brokers = broker.bootstrap_servers().unwrap();
        let mut careless = ClientConfig::new();
        careless.set("bootstrap.servers", &brokers);
        assert!(is_made_by(careless, "mistyped").await, "this broker makes any topic that is asked for");

        let mut env = Env::new(move |name| (name == "KAFKA_BROKERS").then(|| brokers.clone()));
        let config = Config::read(&mut env);
        let config = env.finish(config).unwrap();
        assert!(!is_made_by(config.producer(), "mistyped, too").await);
    }
}
