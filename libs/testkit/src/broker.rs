//! An embedded Kafka-protocol broker: librdkafka's mock cluster, in this process and in memory. For
//! functions, never proof of durability: it keeps 5 MiB a partition and forgets all at its end.

use anyhow::Context;
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, DefaultProducerContext, Producer};

/// Partitions of a topic: enough that order per key is not order per topic.
const PARTITIONS: i32 = 4;

/// A running broker; it ends when the value is dropped.
///
/// The mock cluster belongs to a producer that sends nothing: that one may be shared between threads.
pub struct Embedded(BaseProducer);

impl Embedded {
    /// Starts a broker that has these topics.
    pub fn start(topics: &[String]) -> anyhow::Result<Self> {
        Self::with_nodes(1, topics)
    }

    /// Starts a broker of several nodes, between which partitions can be moved.
    pub fn with_nodes(nodes: u32, topics: &[String]) -> anyhow::Result<Self> {
        let owner = ClientConfig::new().set("test.mock.num.brokers", nodes.to_string()).create();
        let broker = Self(owner.context("the embedded broker did not start")?);
        for topic in topics {
            broker.create_topic(topic)?;
        }
        Ok(broker)
    }

    /// Adds a topic. The broker has no admin API, so topics are made here, in its own process.
    pub fn create_topic(&self, topic: &str) -> anyhow::Result<()> {
        self.cluster()?
            .create_topic(topic, PARTITIONS, 1)
            .with_context(|| format!("topic {topic} could not be created"))
    }

    /// Where clients connect, from this process or another.
    pub fn bootstrap_servers(&self) -> anyhow::Result<String> {
        Ok(self.cluster()?.bootstrap_servers())
    }

    /// The cluster itself, for tests that make it fail.
    pub fn cluster(&self) -> anyhow::Result<MockCluster<'_, DefaultProducerContext>> {
        self.0.client().mock_cluster().context("the embedded broker is gone")
    }
}
