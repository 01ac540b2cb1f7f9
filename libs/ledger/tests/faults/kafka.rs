//! The broker of a test: embedded, or a separate cluster in the lane with a real Kafka.
//!
//! Nodes are numbered from 0.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::RDKafkaRespErr;
use testkit::broker::EmbeddedBroker;
use testkit::kafka::Cluster;
use tokio::sync::Mutex;

/// Partitions of a topic, as with the embedded broker: enough that the order per key differs from
/// the order per topic.
const PARTITIONS: i32 = 4;
/// Response time of the embedded broker while it is frozen: longer than its clients wait.
const FROZEN_RESPONSE_DELAY: Duration = Duration::from_secs(12);
/// Timeout of a request for the leader of a partition.
const METADATA_TIMEOUT: Duration = Duration::from_secs(10);

pub enum Broker {
    Embedded(EmbeddedBroker),
    Kafka(Mutex<Cluster>),
}

impl Broker {
    /// Starts the broker of this lane with this number of nodes.
    #[expect(clippy::disallowed_methods, reason = "a test is configured by its own environment")]
    pub async fn start(nodes: u16, topics: &[String]) -> Self {
        if std::env::var("KAFKA").is_ok_and(|kind| kind == "real") {
            let broker = Self::Kafka(Mutex::new(Cluster::start_temporary(nodes).await.unwrap()));
            broker.create_topics(topics).await;
            return broker;
        }
        Self::Embedded(EmbeddedBroker::with_nodes(nodes.into(), topics).unwrap())
    }

    pub async fn servers(&self) -> String {
        match self {
            Self::Embedded(broker) => broker.bootstrap_servers().unwrap(),
            Self::Kafka(cluster) => cluster.lock().await.bootstrap_servers(),
        }
    }

    /// Returns the embedded broker, for faults that a real one cannot inject.
    pub fn embedded(&self) -> MockCluster<'_, DefaultProducerContext> {
        let Self::Embedded(broker) = self else { panic!("this test needs the embedded broker") };
        broker.cluster().unwrap()
    }

    /// Returns the node that leads a partition.
    pub async fn leader(&self, topic: &str, partition: i32) -> u16 {
        let client: BaseConsumer =
            ClientConfig::new().set("bootstrap.servers", self.servers().await).create().unwrap();
        let metadata = client.fetch_metadata(Some(topic), METADATA_TIMEOUT).unwrap();
        let partitions = metadata.topics()[0].partitions();
        let leader = partitions.iter().find(|known| known.id() == partition).unwrap().leader();
        u16::try_from(leader - 1).unwrap()
    }

    /// Kills a node, which closes its connections.
    pub async fn kill(&self, node: u16) {
        match self {
            Self::Embedded(_) => self.embedded().broker_down(i32::from(node) + 1).unwrap(),
            Self::Kafka(cluster) => cluster.lock().await.kill(node.into()).await.unwrap(),
        }
    }

    /// Restarts a killed node with its data.
    pub async fn restart(&self, node: u16) {
        match self {
            Self::Embedded(_) => self.embedded().broker_up(i32::from(node) + 1).unwrap(),
            Self::Kafka(cluster) => {
                let mut cluster = cluster.lock().await;
                cluster.restart(node.into()).unwrap();
                cluster.healthy().await.unwrap();
            }
        }
    }

    /// Freezes a node, which keeps its connections and does not respond.
    pub async fn freeze(&self, node: u16) {
        match self {
            Self::Embedded(_) => self.delay(node, FROZEN_RESPONSE_DELAY),
            Self::Kafka(cluster) => cluster.lock().await.freeze(node.into()).unwrap(),
        }
    }

    /// Resumes a frozen node. It processes the requests that it has received.
    pub async fn thaw(&self, node: u16) {
        match self {
            Self::Embedded(_) => self.delay(node, Duration::ZERO),
            Self::Kafka(cluster) => cluster.lock().await.thaw(node.into()).unwrap(),
        }
    }

    /// Removes a topic.
    pub async fn remove_topic(&self, topic: &str) {
        match self {
            Self::Embedded(_) => self
                .embedded()
                .topic_error(topic, RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
                .unwrap(),
            Self::Kafka(_) => {
                let removed = self.admin().await.delete_topics(&[topic], &AdminOptions::new()).await;
                removed.unwrap().remove(0).unwrap();
            }
        }
    }

    /// Creates a removed topic again.
    pub async fn restore_topic(&self, topic: &str) {
        match self {
            Self::Embedded(_) => {
                self.embedded().topic_error(topic, RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).unwrap();
            }
            Self::Kafka(_) => self.create_topics(&[topic.to_owned()]).await,
        }
    }

    fn delay(&self, node: u16, delay: Duration) {
        self.embedded().broker_round_trip_time(i32::from(node) + 1, delay).unwrap();
    }

    async fn create_topics(&self, topics: &[String]) {
        let new = topics.iter().map(|topic| NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(-1)));
        let new: Vec<_> = new.collect();
        for created in self.admin().await.create_topics(&new, &AdminOptions::new()).await.unwrap() {
            created.unwrap();
        }
        let Self::Kafka(cluster) = self else { return };
        cluster.lock().await.healthy().await.unwrap();
    }

    async fn admin(&self) -> AdminClient<DefaultClientContext> {
        ClientConfig::new().set("bootstrap.servers", self.servers().await).create().unwrap()
    }
}
