//! The broker of one test: the embedded one, or in a run with a real Kafka a cluster of the test's own.
//! Nodes are counted from 0.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::RDKafkaRespErr;
use testkit::broker::Embedded;
use testkit::kafka::Cluster;
use tokio::sync::Mutex;

/// As the embedded broker has: enough that order per key is not order per topic.
const PARTITIONS: i32 = 4;
/// In which the embedded broker answers while it is frozen: after its clients have given up.
const FROZEN: Duration = Duration::from_secs(12);
/// How long it may take to say who leads.
const PATIENCE: Duration = Duration::from_secs(10);

pub enum Broker {
    Embedded(Embedded),
    Kafka(Mutex<Cluster>),
}

impl Broker {
    /// Starts the broker that this run is with, of so many nodes.
    #[expect(clippy::disallowed_methods, reason = "a test is configured by its own environment")]
    pub async fn start(nodes: u16, topics: &[String]) -> Self {
        if std::env::var("KAFKA").is_ok_and(|kind| kind == "real") {
            let broker = Self::Kafka(Mutex::new(Cluster::start_temporary(nodes).await.unwrap()));
            broker.make(topics).await;
            return broker;
        }
        Self::Embedded(Embedded::with_nodes(nodes.into(), topics).unwrap())
    }

    pub async fn servers(&self) -> String {
        match self {
            Self::Embedded(broker) => broker.bootstrap_servers().unwrap(),
            Self::Kafka(cluster) => cluster.lock().await.bootstrap_servers(),
        }
    }

    /// The embedded broker, for what no other does at a command.
    pub fn embedded(&self) -> MockCluster<'_, DefaultProducerContext> {
        let Self::Embedded(broker) = self else { panic!("a test of the embedded broker runs on another") };
        broker.cluster().unwrap()
    }

    /// The node that leads a partition.
    pub async fn leader(&self, topic: &str, partition: i32) -> u16 {
        let client: BaseConsumer =
            ClientConfig::new().set("bootstrap.servers", self.servers().await).create().unwrap();
        let metadata = client.fetch_metadata(Some(topic), PATIENCE).unwrap();
        let partitions = metadata.topics()[0].partitions();
        let leader = partitions.iter().find(|known| known.id() == partition).unwrap().leader();
        u16::try_from(leader - 1).unwrap()
    }

    /// A node is gone, with its connections.
    pub async fn kill(&self, node: u16) {
        match self {
            Self::Embedded(_) => self.embedded().broker_down(i32::from(node) + 1).unwrap(),
            Self::Kafka(cluster) => cluster.lock().await.kill(node.into()).await.unwrap(),
        }
    }

    /// A node that was gone is back, with what it had.
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

    /// A node keeps its connections and answers no more.
    pub async fn freeze(&self, node: u16) {
        match self {
            Self::Embedded(_) => self.delay(node, FROZEN),
            Self::Kafka(cluster) => cluster.lock().await.freeze(node.into()).unwrap(),
        }
    }

    /// A node that was frozen goes on with what it was sent.
    pub async fn thaw(&self, node: u16) {
        match self {
            Self::Embedded(_) => self.delay(node, Duration::ZERO),
            Self::Kafka(cluster) => cluster.lock().await.thaw(node.into()).unwrap(),
        }
    }

    /// Takes a topic away.
    pub async fn remove(&self, topic: &str) {
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

    /// Makes a topic that was taken away.
    pub async fn make_again(&self, topic: &str) {
        match self {
            Self::Embedded(_) => {
                self.embedded().topic_error(topic, RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).unwrap();
            }
            Self::Kafka(_) => self.make(&[topic.to_owned()]).await,
        }
    }

    fn delay(&self, node: u16, delay: Duration) {
        self.embedded().broker_round_trip_time(i32::from(node) + 1, delay).unwrap();
    }

    async fn make(&self, topics: &[String]) {
        let new = topics.iter().map(|topic| NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(-1)));
        let new: Vec<_> = new.collect();
        for made in self.admin().await.create_topics(&new, &AdminOptions::new()).await.unwrap() {
            made.unwrap();
        }
        let Self::Kafka(cluster) = self else { return };
        cluster.lock().await.healthy().await.unwrap();
    }

    async fn admin(&self) -> AdminClient<DefaultClientContext> {
        ClientConfig::new().set("bootstrap.servers", self.servers().await).create().unwrap()
    }
}
