//! Creation of topics: only `migrate` creates them, as they are declared.

#![expect(clippy::unwrap_used, reason = "a helper that fails ends its test")]

use std::net::TcpListener;
use std::time::Duration;

use messaging::topics::{TopicCreation, Topics};
use messaging::{Config, topics};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, FutureProducer, FutureRecord, Producer};
use runtime::Env;
use testkit::broker::EmbeddedBroker;
use testkit::{eventually, required};

/// Returns the declaration of one topic of the service `shop`, with the default replication.
fn declared(name: &str, partitions: u16) -> String {
    format!(
        "{{dead_letters: {{partitions: 1, retention_days: 30}}, topics: [\
         {{name: {name}, owner: shop, key: the order's id, partitions: {partitions}, retention_days: 14}}]}}"
    )
}

fn unique(name: &str) -> String {
    format!("platform.shop.{name}-{:032x}.v1", rand::random::<u128>())
}

/// Returns the configuration with `brokers` as `KAFKA_BROKERS` and `topics` as `KAFKA_TOPICS`.
fn config(brokers: &str, topics: &str) -> Config {
    let (brokers, topics) = (brokers.to_owned(), topics.to_owned());
    let mut env = Env::new(move |name| match name {
        "KAFKA_BROKERS" => Some(brokers.clone()),
        "KAFKA_TOPICS" => Some(topics.clone()),
        _ => None,
    });
    let config = Config::read(&mut env);
    env.finish(config).unwrap()
}

fn client(brokers: &str) -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", brokers);
    client
}

/// Returns the number of partitions of a topic, or 0 if it does not exist.
fn partition_count(brokers: &str, name: &str) -> usize {
    let client: BaseProducer = client(brokers).create().unwrap();
    let metadata = client.client().fetch_metadata(None, Duration::from_secs(10)).unwrap();
    metadata.topics().iter().find(|topic| topic.name() == name).map_or(0, |topic| topic.partitions().len())
}

/// Waits until a topic has `count` partitions. A broker reports a new topic with a delay.
async fn wait_for_partitions(brokers: &str, name: &str, count: usize) {
    eventually(name, async || (partition_count(brokers, name) == count).then_some(())).await;
}

async fn create(brokers: &str, declared: &str, name: &str) -> TopicCreation {
    let topics: Topics = yaml_serde::from_str(declared).unwrap();
    topics.create_missing(&client(brokers), &[name.to_owned()]).await.unwrap()
}

async fn setting(brokers: &str, topic: &str, name: &str) -> Option<String> {
    let admin: AdminClient<DefaultClientContext> = client(brokers).create().unwrap();
    let described = admin.describe_configs(&[ResourceSpecifier::Topic(topic)], &AdminOptions::new()).await;
    let described = described.unwrap().remove(0).unwrap();
    described.get(name).and_then(|entry| entry.value.clone())
}

/// RULE-ALL-057: the owner's `migrate` creates a missing topic as declared.
#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn migrate_creates_missing_topic_as_declared() {
    let (brokers, name) = (required("KAFKA_BROKERS").unwrap(), unique("ordered"));
    let config = config(&brokers, &declared(&name, 5));

    config.create_topics("shop", &[name.clone(), topics::dead_letter_topic(&name, "shop")]).await.unwrap();

    wait_for_partitions(&brokers, &name, 5).await;
    let days = |count: u64| Some((count * 24 * 60 * 60 * 1000).to_string());
    assert_eq!(setting(&brokers, &name, "retention.ms").await, days(14));
    let dead = topics::dead_letter_topic(&name, "shop");
    wait_for_partitions(&brokers, &dead, 1).await;
    assert_eq!(setting(&brokers, &dead, "retention.ms").await, days(30));
}

/// RULE-ALL-057: `migrate` creates no topic of another service.
#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn migrate_creates_no_topic_of_another_service() {
    let (brokers, name) = (required("KAFKA_BROKERS").unwrap(), unique("ordered"));
    let config = config(&brokers, &declared(&name, 5));
    let dead = topics::dead_letter_topic(&name, "billing");

    config.create_topics("billing", &[name.clone(), dead.clone()]).await.unwrap();

    wait_for_partitions(&brokers, &dead, 1).await;
    assert_eq!(partition_count(&brokers, &name), 0);
}

/// RULE-ALL-057: no topic is altered.
#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn existing_topic_is_not_altered_and_a_mismatch_is_reported() {
    let (brokers, name) = (required("KAFKA_BROKERS").unwrap(), unique("ordered"));
    let first = create(&brokers, &declared(&name, 2), &name).await;
    assert_eq!(first.created, std::slice::from_ref(&name));

    let second = create(&brokers, &declared(&name, 3), &name).await;

    assert_eq!((second.created.len(), second.failed.len()), (0, 0));
    assert_eq!(second.mismatched, [format!("{name} has 2 partitions instead of 3 and is not altered")]);
    wait_for_partitions(&brokers, &name, 2).await;
}

/// RULE-ALL-057: no topic is created by accident.
#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn real_broker_creates_no_topic_for_a_producer() {
    let (brokers, name) = (required("KAFKA_BROKERS").unwrap(), unique("mistyped"));
    let mut client = client(&brokers);
    // This client asks the broker to create the topic.
    client.set("allow.auto.create.topics", "true").set("topic.metadata.propagation.max.ms", "1000");
    let producer: FutureProducer = client.create().unwrap();

    let sent = producer.send(FutureRecord::to(&name).key("1").payload("{}"), Duration::from_secs(20)).await;

    assert!(sent.is_err());
    assert_eq!(partition_count(&brokers, &name), 0);
}

/// RULE-ALL-057: a broker without the admin API fails no migration.
#[tokio::test]
async fn broker_without_admin_api_is_reported_and_fails_no_migration() {
    let embedded = EmbeddedBroker::start(&[]).unwrap();
    let (brokers, name) = (embedded.bootstrap_servers().unwrap(), unique("ordered"));
    let (declared, names) = (declared(&name, 5), [name.clone()]);
    let config = config(&brokers, &declared);

    // Both run concurrently, since each waits for the broker until a timeout.
    let (creation, migration) =
        tokio::join!(create(&brokers, &declared, &name), config.create_topics("shop", &names));

    assert_eq!(creation.created.len(), 0);
    assert!(creation.failed[0].starts_with(&format!("failed to create {name}: ")), "{creation:?}");
    migration.unwrap();
}

/// RULE-ALL-057: topics that are created elsewhere need no broker.
#[tokio::test]
async fn topics_created_elsewhere_need_no_broker() {
    let broker = TcpListener::bind("127.0.0.1:0").unwrap();
    broker.set_nonblocking(true).unwrap();
    let config = config(&broker.local_addr().unwrap().to_string(), "elsewhere");

    config.create_topics("shop", &[unique("ordered")]).await.unwrap();

    assert_eq!(
        broker.accept().unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock,
        "the broker was contacted"
    );
}

/// RULE-ALL-074: an unreadable declaration of topics is a configuration error.
#[tokio::test]
async fn unreadable_declaration_is_a_configuration_error() {
    let mut env = Env::new(|name| match name {
        "KAFKA_BROKERS" => Some("127.0.0.1:9092".to_owned()),
        "KAFKA_TOPICS" => Some("topics: many".to_owned()),
        _ => None,
    });
    let config = Config::read(&mut env);
    let error = env.finish(config).unwrap_err().to_string();
    assert!(error.contains("KAFKA_TOPICS is not valid"), "{error}");
}
