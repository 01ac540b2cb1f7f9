//! The broker of a test: embedded, or a cluster in the lane with a real Kafka.
//!
//! Nodes are numbered from 0. Kafka's ids of the nodes begin at 1.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
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

use crate::rig::eventually;

/// Partitions of a topic, as with the embedded broker: enough that the order per key differs from
/// the order per topic.
pub const PARTITIONS: i32 = 4;
/// Response time of the embedded broker while it is frozen: longer than the timeout of a request of
/// the relay, 10 s.
const FROZEN_RESPONSE_DELAY: Duration = Duration::from_secs(12);
/// Timeout of a request for metadata.
const METADATA_TIMEOUT: Duration = Duration::from_secs(10);

/// Clusters that no test uses at the moment. The start of a cluster takes longer than most tests.
static IDLE_CLUSTERS: Mutex<Vec<Cluster>> = Mutex::new(Vec::new());

pub enum Broker {
    Embedded(EmbeddedBroker),
    /// A cluster that the test may stop.
    Own(tokio::sync::Mutex<Cluster>),
    /// A cluster that a later test uses again.
    Reused(Option<Cluster>),
}

impl Broker {
    /// Returns the broker of this lane with one node, which the test does not stop.
    pub async fn take(topics: &[String]) -> Self {
        if !is_real_kafka() {
            return Self::Embedded(EmbeddedBroker::with_nodes(1, topics).unwrap());
        }
        let idle = IDLE_CLUSTERS.lock().unwrap().pop();
        let is_used = idle.is_some();
        let cluster = match idle {
            Some(cluster) => cluster,
            None => Cluster::start_temporary(1).await.unwrap(),
        };
        let broker = Self::Reused(Some(cluster));
        if is_used {
            broker.remove_all_topics().await;
        }
        broker.create_topics(topics).await;
        broker
    }

    /// Starts a broker of this lane with this number of nodes, which the test may stop.
    pub async fn start(nodes: u16, topics: &[String]) -> Self {
        if !is_real_kafka() {
            return Self::Embedded(EmbeddedBroker::with_nodes(nodes.into(), topics).unwrap());
        }
        let broker = Self::Own(tokio::sync::Mutex::new(Cluster::start_temporary(nodes).await.unwrap()));
        broker.create_topics(topics).await;
        broker
    }

    pub async fn servers(&self) -> String {
        match self {
            Self::Embedded(broker) => broker.bootstrap_servers().unwrap(),
            Self::Own(cluster) => cluster.lock().await.bootstrap_servers(),
            Self::Reused(cluster) => cluster.as_ref().unwrap().bootstrap_servers(),
        }
    }

    /// Returns the embedded broker, for faults that a real one cannot inject.
    pub fn embedded(&self) -> MockCluster<'_, DefaultProducerContext> {
        let Self::Embedded(broker) = self else { panic!("this test needs the embedded broker") };
        broker.cluster().unwrap()
    }

    /// Returns the node that leads a partition.
    pub async fn leader(&self, topic: &str, partition: i32) -> u16 {
        let client = self.client().await;
        let metadata = client.fetch_metadata(Some(topic), METADATA_TIMEOUT).unwrap();
        let partitions = metadata.topics()[0].partitions();
        let leader = partitions.iter().find(|known| known.id() == partition).unwrap().leader();
        u16::try_from(leader - 1).unwrap()
    }

    /// Returns the number of partitions of a topic.
    pub async fn partitions(&self, topic: &str) -> i32 {
        topics(&self.client().await).get(topic).copied().unwrap_or_default()
    }

    /// Kills a node, which closes its connections.
    pub async fn kill(&self, node: u16) {
        match self {
            Self::Embedded(_) => self.embedded().broker_down(i32::from(node) + 1).unwrap(),
            Self::Own(_) | Self::Reused(_) => self.own().lock().await.kill(node.into()).await.unwrap(),
        }
    }

    /// Restarts a killed node with its data.
    pub async fn restart(&self, node: u16) {
        match self {
            Self::Embedded(_) => self.embedded().broker_up(i32::from(node) + 1).unwrap(),
            Self::Own(_) | Self::Reused(_) => {
                let mut cluster = self.own().lock().await;
                cluster.restart(node.into()).unwrap();
                cluster.wait_until_healthy().await.unwrap();
            }
        }
    }

    /// Freezes a node, which keeps its connections and does not respond.
    pub async fn freeze(&self, node: u16) {
        match self {
            Self::Embedded(_) => self.delay(node, FROZEN_RESPONSE_DELAY),
            Self::Own(_) | Self::Reused(_) => self.own().lock().await.freeze(node.into()).unwrap(),
        }
    }

    /// Resumes a frozen node. It processes the requests that it has received.
    pub async fn thaw(&self, node: u16) {
        match self {
            Self::Embedded(_) => self.delay(node, Duration::ZERO),
            Self::Own(_) | Self::Reused(_) => self.own().lock().await.thaw(node.into()).unwrap(),
        }
    }

    /// Removes a topic.
    pub async fn remove_topic(&self, topic: &str) {
        match self {
            Self::Embedded(_) => self
                .embedded()
                .topic_error(topic, RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
                .unwrap(),
            Self::Own(_) | Self::Reused(_) => self.delete_topics(&[topic]).await,
        }
    }

    /// Creates a removed topic again.
    pub async fn restore_topic(&self, topic: &str) {
        match self {
            Self::Embedded(_) => {
                self.embedded().topic_error(topic, RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).unwrap();
            }
            Self::Own(_) | Self::Reused(_) => self.create_topics(&[topic.to_owned()]).await,
        }
    }

    fn own(&self) -> &tokio::sync::Mutex<Cluster> {
        let Self::Own(cluster) = self else { panic!("only a test with a broker of its own may stop it") };
        cluster
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
        let has_all = |partitions: &HashMap<String, i32>| {
            topics.iter().all(|topic| partitions.get(topic) == Some(&PARTITIONS))
        };
        self.wait_for_topics(has_all).await;
        if let Self::Own(cluster) = self {
            cluster.lock().await.wait_until_healthy().await.unwrap();
        }
    }

    /// Removes the topics of earlier tests, but not those of the broker itself.
    async fn remove_all_topics(&self) {
        let topics = topics(&self.client().await);
        let names: Vec<_> = topics.keys().map(String::as_str).collect();
        self.delete_topics(&names).await;
    }

    async fn delete_topics(&self, names: &[&str]) {
        for deleted in self.admin().await.delete_topics(names, &AdminOptions::new()).await.unwrap() {
            deleted.unwrap();
        }
        self.wait_for_topics(|topics| names.iter().all(|name| !topics.contains_key(*name))).await;
    }

    /// Waits for metadata that satisfy `condition`. A broker confirms a change before its metadata
    /// show it.
    async fn wait_for_topics(&self, condition: impl Fn(&HashMap<String, i32>) -> bool) {
        let client = self.client().await;
        eventually("the topics", async || condition(&topics(&client))).await;
    }

    async fn client(&self) -> BaseConsumer {
        ClientConfig::new().set("bootstrap.servers", self.servers().await).create().unwrap()
    }

    async fn admin(&self) -> AdminClient<DefaultClientContext> {
        ClientConfig::new().set("bootstrap.servers", self.servers().await).create().unwrap()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Self::Reused(cluster) = self {
            IDLE_CLUSTERS.lock().unwrap_or_else(PoisonError::into_inner).extend(cluster.take());
        }
    }
}

/// Returns the partitions of each topic, without the topics of the broker itself.
fn topics(client: &BaseConsumer) -> HashMap<String, i32> {
    let metadata = client.fetch_metadata(None, METADATA_TIMEOUT).unwrap();
    let topics = metadata
        .topics()
        .iter()
        .map(|topic| (topic.name().to_owned(), topic.partitions().len().try_into().unwrap()));
    topics.filter(|(name, _)| !name.starts_with("__")).collect()
}

/// Returns true in the lane with a real Kafka.
#[expect(clippy::disallowed_methods, reason = "a test is configured by its own environment")]
fn is_real_kafka() -> bool {
    std::env::var("KAFKA").is_ok_and(|kind| kind == "real")
}
