//! A cluster of three nodes keeps acknowledged messages while one node is killed or frozen.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{FutureProducer, FutureRecord};
use testkit::kafka::Cluster;

const TOPIC: &str = "retained";

async fn send(producer: &FutureProducer, payload: &str) {
    let record = FutureRecord::to(TOPIC).key("key").payload(payload);
    producer.send(record, Duration::from_mins(1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn cluster_of_three_survives_the_loss_of_one_node() {
    let mut cluster = Cluster::start_temporary(3).await.unwrap();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap_servers());
    let admin: AdminClient<DefaultClientContext> = config.create().unwrap();
    let topic = NewTopic::new(TOPIC, 3, TopicReplication::Fixed(-1));
    admin.create_topics(&[topic], &AdminOptions::new()).await.unwrap().remove(0).unwrap();
    cluster.wait_until_healthy().await.unwrap();
    // Short timeouts, since the client waits for a frozen leader.
    let producer: FutureProducer =
        config.clone().set("request.timeout.ms", "2000").set("socket.timeout.ms", "5000").create().unwrap();
    send(&producer, "with all").await;

    cluster.kill(0).await.unwrap();
    send(&producer, "with one killed").await;
    cluster.restart(0).unwrap();
    cluster.wait_until_healthy().await.unwrap();

    cluster.freeze(1).unwrap();
    send(&producer, "with one frozen").await;
    cluster.thaw(1).unwrap();
    cluster.wait_until_healthy().await.unwrap();

    let consumer: BaseConsumer = config.set("group.id", "test").create().unwrap();
    let end = |partition| consumer.fetch_watermarks(TOPIC, partition, Duration::from_secs(10)).unwrap().1;
    let retained: i64 = (0..3).map(end).sum();
    assert!(retained >= 3, "{retained} of 3 messages are left");
}
