//! Where the broker is and how clients speak to it.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::{ClientConfig, ClientContext};
use runtime::{Env, Process};

use crate::topics::Source;

/// What librdkafka tells its clients beside what it logs: the same again, twenty times a second while no
/// broker is to be reached.
pub(crate) struct Quiet;

impl ClientContext for Quiet {
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "librdkafka");
    }
}

/// Readiness is asked every few seconds and has an answer in less.
const PROBE_PATIENCE: Duration = Duration::from_secs(1);

/// The broker, and settings that a deployment adds (TLS, SASL).
#[derive(Clone, Debug)]
pub struct Config {
    brokers: String,
    group_suffix: String,
    fetch_wait_ms: u32,
    session_timeout_ms: u32,
    pub(crate) consumer_bytes: usize,
    properties: Vec<String>,
    pub(crate) topics: Source,
}

impl Config {
    pub fn read(env: &mut Env) -> Option<Self> {
        let brokers = env.require("KAFKA_BROKERS", "Kafka bootstrap servers, as in host:9092,host:9092");
        let fetch_wait_ms = env.or("KAFKA_FETCH_WAIT_MS", 100, "how long a fetch may wait for messages");
        let session_timeout_ms = env.or(
            "KAFKA_SESSION_TIMEOUT_MS",
            45_000,
            "a consumer that was silent for so long loses its partitions to the others",
        );
        let consumer_bytes = env.or(
            "KAFKA_CONSUMER_BYTES",
            32 << 20,
            "of messages that wait to be applied, over all consumers of a replica",
        );
        let group_suffix = env.or(
            "KAFKA_GROUP_SUFFIX",
            String::new(),
            "added to consumer groups, where deployments share a broker",
        );
        let properties =
            env.list("KAFKA_PROPERTIES", "further librdkafka settings, as in security.protocol=ssl");
        let topics = env.or(
            "KAFKA_TOPICS",
            Source::BuiltIn,
            "the topics that migrate makes, as YAML (see deploy/kafka/topics.yaml); or elsewhere: it makes none",
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

    pub(crate) fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        client
            .set("bootstrap.servers", &self.brokers)
            .set("allow.auto.create.topics", "false")
            .set("reconnect.backoff.max.ms", "2000");
        for (name, value) in self.properties.iter().filter_map(|property| property.split_once('=')) {
            client.set(name, value);
        }
        client
    }

    /// Makes readiness depend on the broker: a worker without one has nothing to do.
    pub(crate) fn require_broker(&self, process: &Process) -> anyhow::Result<()> {
        let probe: Arc<BaseProducer> = Arc::new(self.producer().create()?);
        process.require("broker", move || {
            let probe = Arc::clone(&probe);
            // librdkafka's call blocks.
            let answer =
                tokio::task::spawn_blocking(move || probe.client().fetch_metadata(None, PROBE_PATIENCE));
            async move {
                match answer.await {
                    Ok(Ok(_)) => Ok(()),
                    Ok(Err(error)) => Err(error.to_string()),
                    Err(error) => Err(error.to_string()),
                }
            }
        });
        Ok(())
    }

    /// Nothing lost, nothing reordered: idempotent, acknowledged by all replicas, never timed out.
    pub fn producer(&self) -> ClientConfig {
        let mut client = self.client();
        client
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("max.in.flight.requests.per.connection", "5")
            .set("compression.type", "lz4")
            .set("message.timeout.ms", "0")
            // A broker that froze, or a connection that was lost without a word, holds up events for so long.
            .set("socket.timeout.ms", "10000")
            .set("linger.ms", "2");
        client
    }

    /// Offsets are stored by hand, after the commit of what the message did.
    pub(crate) fn consumer(&self, group: &str) -> ClientConfig {
        let mut client = self.client();
        client
            .set("group.id", format!("{group}{}", self.group_suffix))
            .set("enable.auto.commit", "true")
            .set("auto.commit.interval.ms", "1000")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest")
            .set("session.timeout.ms", self.session_timeout_ms.to_string())
            .set("topic.metadata.refresh.interval.ms", "30000")
            .set("statistics.interval.ms", "5000")
            // What the client has fetched in advance, beside what waits here.
            .set("queued.max.messages.kbytes", "2048")
            .set("fetch.message.max.bytes", "524288")
            .set("fetch.max.bytes", "4194304")
            .set("fetch.wait.max.ms", self.fetch_wait_ms.to_string());
        client
    }
}
