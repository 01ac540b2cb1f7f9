//! The embedded broker: librdkafka's mock cluster, in this process and in memory.
//!
//! Functional tests use the embedded broker. They prove nothing about durability, because the
//! broker keeps 5 MiB of each partition and loses everything when it stops.

use anyhow::Context;
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, DefaultProducerContext, Producer};

/// Partitions of a topic: enough that the order per key differs from the order per topic.
const PARTITIONS: i32 = 4;

/// A running broker. Dropping it stops the broker.
///
/// The mock cluster belongs to a producer that sends nothing, since a producer can be shared
/// between threads.
pub struct EmbeddedBroker(BaseProducer);

impl EmbeddedBroker {
    /// Starts a broker of one node with these topics.
    pub fn start(topics: &[String]) -> anyhow::Result<Self> {
        Self::with_nodes(1, topics)
    }

    /// Starts a broker of several nodes. Tests can move partitions between them.
    pub fn with_nodes(nodes: u32, topics: &[String]) -> anyhow::Result<Self> {
        let owner = ClientConfig::new().set("test.mock.num.brokers", nodes.to_string()).create();
        let broker = Self(owner.context("failed to start the embedded broker")?);
        for topic in topics {
            broker.create_topic(topic)?;
        }
        Ok(broker)
    }

    /// Creates a topic. The broker has no admin API, so only this process can create topics.
    pub fn create_topic(&self, topic: &str) -> anyhow::Result<()> {
        self.cluster()?
            .create_topic(topic, PARTITIONS, 1)
            .with_context(|| format!("failed to create topic {topic}"))
    }

    /// Returns the address for clients in any process of this machine.
    pub fn bootstrap_servers(&self) -> anyhow::Result<String> {
        Ok(self.cluster()?.bootstrap_servers())
    }

    /// Returns the mock cluster, for tests that inject failures.
    pub fn cluster(&self) -> anyhow::Result<MockCluster<'_, DefaultProducerContext>> {
        self.0.client().mock_cluster().context("the embedded broker has stopped")
    }
}
