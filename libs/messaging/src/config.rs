//! The broker's address and the settings of Kafka clients.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::{ClientConfig, ClientContext};
use runtime::{Env, Process};
use tokio_util::sync::CancellationToken;

use crate::contract::topics::admin::partition_counts;
use crate::contract::topics::setting::TopicsSetting;

/// Logs librdkafka's error events at debug level.
/// Without a broker, librdkafka repeats the same event twenty times a second.
pub(crate) struct QuietContext;

impl ConsumerContext for QuietContext {}

impl ClientContext for QuietContext {
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "librdkafka reported an error");
    }
}

/// The timeout of the readiness check. It is shorter than the interval between two checks.
const READINESS_TIMEOUT: Duration = Duration::from_secs(1);
const MISSING_TOPICS_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// A librdkafka setting, as in `security.protocol=ssl`.
#[derive(Clone, Debug)]
struct Property {
    name: String,
    value: String,
}

impl FromStr for Property {
    type Err = &'static str;

    /// An error does not repeat the text, since it may be part of a password.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                Ok(Self { name: name.to_owned(), value: value.to_owned() })
            }
            _ => Err("an entry is not of the form name=value"),
        }
    }
}

/// The settings of a service's Kafka clients.
#[derive(Clone, Debug)]
pub struct Config {
    brokers: String,
    group_suffix: String,
    fetch_wait_ms: u32,
    session_timeout_ms: u32,
    /// The bytes of unprocessed messages that the consumers of a process may buffer.
    pub(crate) consumer_bytes: usize,
    properties: Vec<Property>,
    pub(crate) topics: TopicsSetting,
}

impl Config {
    pub fn read(env: &mut Env) -> Option<Self> {
        let brokers = env.require("KAFKA_BROKERS", "Kafka bootstrap servers, as in host:9092,host:9092");
        let fetch_wait_ms = env.with_default(
            "KAFKA_FETCH_WAIT_MS",
            100,
            "longest wait of a fetch for messages, in milliseconds",
        );
        let session_timeout_ms = env.with_default(
            "KAFKA_SESSION_TIMEOUT_MS",
            45_000,
            "a consumer that sends no heartbeat for this time loses its partitions, in milliseconds",
        );
        let consumer_bytes = env.with_default(
            "KAFKA_CONSUMER_BYTES",
            32 << 20,
            "bytes of unprocessed messages that all consumers of a replica buffer together",
        );
        let group_suffix = env.with_default(
            "KAFKA_GROUP_SUFFIX",
            String::new(),
            "suffix of consumer groups, for deployments that share a broker",
        );
        let properties =
            env.list("KAFKA_PROPERTIES", "further librdkafka settings, as in security.protocol=ssl");
        let topics = env.with_default(
            "KAFKA_TOPICS",
            TopicsSetting::BuiltIn,
            "topics that migrate creates: built-in, YAML like deploy/kafka/topics.yaml, or the word elsewhere for none",
        );
        Some(Self {
            brokers: brokers?,
            group_suffix: group_suffix?,
            fetch_wait_ms: fetch_wait_ms?,
            session_timeout_ms: session_timeout_ms?,
            consumer_bytes: consumer_bytes?,
            properties: properties?,
            topics: topics?,
        })
    }

    fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        client
            .set("bootstrap.servers", &self.brokers)
            .set("allow.auto.create.topics", "false")
            .set("reconnect.backoff.max.ms", "2000");
        for Property { name, value } in &self.properties {
            client.set(name, value);
        }
        client
    }

    /// Makes readiness depend on the broker, since relay and consumers cannot work without one.
    pub(crate) fn require_broker(&self, process: &Process) -> anyhow::Result<()> {
        let probe: Arc<BaseProducer> = Arc::new(self.producer().create()?);
        process.add_readiness_check("broker", move || {
            let probe = Arc::clone(&probe);
            // librdkafka's call blocks.
            let metadata =
                tokio::task::spawn_blocking(move || probe.client().fetch_metadata(None, READINESS_TIMEOUT));
            async move {
                match metadata.await {
                    Ok(Ok(_)) => Ok(()),
                    Ok(Err(error)) => Err(error.to_string()),
                    Err(error) => Err(error.to_string()),
                }
            }
        });
        Ok(())
    }

    /// Returns the settings of a producer that neither loses nor reorders messages: idempotent,
    /// acknowledged by all in-sync replicas, without a delivery timeout.
    pub fn producer(&self) -> ClientConfig {
        let mut client = self.client();
        client
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("max.in.flight.requests.per.connection", "5")
            .set("compression.type", "lz4")
            .set("message.timeout.ms", "0")
            // Bounds the delay of events when a broker freezes or a connection breaks silently.
            .set("socket.timeout.ms", "10000")
            .set("linger.ms", "2");
        client
    }

    /// Returns the id of a consumer group on the broker.
    pub(crate) fn group_id(&self, group: &str) -> String {
        format!("{group}{}", self.group_suffix)
    }

    /// Returns the settings of a consumer. Offsets are stored explicitly, after the transaction
    /// that applied the message has committed.
    pub(crate) fn consumer(&self, group: &str) -> ClientConfig {
        let mut client = self.client();
        client
            .set("group.id", self.group_id(group))
            .set("enable.auto.commit", "true")
            .set("auto.commit.interval.ms", "1000")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest")
            .set("session.timeout.ms", self.session_timeout_ms.to_string())
            .set("topic.metadata.refresh.interval.ms", "30000")
            .set("statistics.interval.ms", "5000")
            // librdkafka prefetches these bytes in addition to the buffer of the consumer.
            .set("queued.max.messages.kbytes", "2048")
            .set("fetch.message.max.bytes", "524288")
            .set("fetch.max.bytes", "4194304")
            .set("fetch.wait.max.ms", self.fetch_wait_ms.to_string());
        client
    }

    /// Creates the missing topics among `names` that `service` owns.
    ///
    /// Logs a topic that cannot be created and returns no error for it: the schema is migrated, and
    /// an administrator may create the topic.
    ///
    /// # Errors
    /// The built-in declaration of topics cannot be read.
    pub async fn create_topics(&self, service: &str, names: &[String]) -> anyhow::Result<()> {
        let Some(topics) = self.topics.created_by_migrate()? else { return Ok(()) };
        let own: Vec<_> = names.iter().filter(|name| topics.is_created_by(service, name)).cloned().collect();
        match topics.create_missing(&self.client(), &own).await {
            Ok(creation) => {
                for topic in creation.created {
                    tracing::info!(topic, "topic created");
                }
                for problem in creation.failed.iter().chain(&creation.mismatched) {
                    tracing::warn!("{problem}");
                }
            }
            Err(error) => tracing::warn!(error = format!("{error:#}"), "failed to create topics"),
        }
        Ok(())
    }

    /// Logs which of `names` are missing until all of them exist. Relay and consumers wait for
    /// their topics by themselves.
    ///
    /// Never fails. [`Process::spawn`] requires the `Result`.
    pub(crate) async fn log_missing_topics(
        self,
        names: Vec<String>,
        stopping: CancellationToken,
    ) -> anyhow::Result<()> {
        loop {
            // The readiness check reports a broker that does not answer.
            if let Ok(existing) = partition_counts(&self.client()).await {
                let missing: Vec<_> = names.iter().filter(|name| !existing.contains_key(*name)).collect();
                if missing.is_empty() {
                    return Ok(());
                }
                tracing::warn!(
                    ?missing,
                    "waiting for topics; `migrate` of the service that owns a topic creates it"
                );
            }
            tokio::select! {
                () = tokio::time::sleep(MISSING_TOPICS_CHECK_INTERVAL) => {}
                () = stopping.cancelled() => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rdkafka::ClientConfig;
    use rdkafka::producer::{FutureProducer, FutureRecord};
    use runtime::Env;
    use testkit::broker::EmbeddedBroker;

    use super::{Config, partition_counts};

    /// Publishes to a topic that does not exist. Returns true if the topic exists afterwards.
    async fn creates_topic(client: ClientConfig, topic: &str) -> bool {
        let producer: FutureProducer = client.create().unwrap();
        let sent = producer.send(FutureRecord::to(topic).key("1").payload("{}"), Duration::ZERO);
        // A client that may create topics requests the topic at once. Other clients retry without a
        // limit, so the timeout ends the attempt.
        let _ = tokio::time::timeout(Duration::from_secs(3), sent).await;
        partition_counts(&client).await.unwrap().contains_key(topic)
    }

    /// RULE-ALL-074: an entry without a name or an equals sign is an error, which does not repeat
    /// the entry.
    #[test]
    fn kafka_property_without_name_or_equals_sign_is_an_error() {
        let read = |properties: &'static str| {
            let mut env = Env::new(move |name| match name {
                "KAFKA_BROKERS" => Some("localhost:9092".to_owned()),
                "KAFKA_PROPERTIES" => Some(properties.to_owned()),
                _ => None,
            });
            let config = Config::read(&mut env);
            env.finish(config)
        };
        for properties in ["security.protocol", "security.protocol=ssl,hidden", "=ssl"] {
            let error = read(properties).unwrap_err().to_string();
            assert!(error.contains("KAFKA_PROPERTIES is not valid: an entry is not"), "{error}");
            assert!(!error.contains("hidden"), "{error}");
        }
        let client = read("security.protocol=ssl, sasl.password=a=b").unwrap().client();
        assert_eq!(client.get("security.protocol"), Some("ssl"));
        assert_eq!(client.get("sasl.password"), Some("a=b"));
    }

    /// RULE-ALL-057: no client creates a topic by accident.
    #[tokio::test]
    async fn client_of_auto_creating_broker_creates_no_topic() {
        let broker = EmbeddedBroker::start(&[]).unwrap();
        let brokers = broker.bootstrap_servers().unwrap();
        let mut creating = ClientConfig::new();
        creating.set("bootstrap.servers", &brokers);
        assert!(creates_topic(creating, "mistyped").await, "the broker creates any topic");

        let mut env = Env::new(move |name| (name == "KAFKA_BROKERS").then(|| brokers.clone()));
        let config = Config::read(&mut env);
        let config = env.finish(config).unwrap();
        assert!(!creates_topic(config.producer(), "mistyped-again").await);
    }
}
