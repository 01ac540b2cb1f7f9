//! Topics are made as they are declared, by `migrate` and by nobody else.

#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use std::net::TcpListener;
use std::time::Duration;

use messaging::topics::{Outcome, Topics};
use messaging::{Config, topics};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, FutureProducer, FutureRecord, Producer};
use runtime::Env;
use testkit::broker::Embedded;
use testkit::{eventually, required};

/// The declaration of one topic with this name, of the service `shop`, on brokers of any number.
fn declared(name: &str, partitions: u16) -> String {
    format!(
        "{{dead_letters: {{partitions: 1, retention_days: 30}}, topics: [\
         {{name: {name}, owner: shop, key: the order's id, partitions: {partitions}, retention_days: 14}}]}}"
    )
}

fn unique(name: &str) -> String {
    format!("platform.shop.{name}-{:032x}.v1", rand::random::<u128>())
}

/// What a service is told by its environment.
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

/// How many partitions the topic has; 0 if there is none.
fn partitions(brokers: &str, name: &str) -> usize {
    let client: BaseProducer = client(brokers).create().unwrap();
    let metadata = client.client().fetch_metadata(None, Duration::from_secs(10)).unwrap();
    metadata.topics().iter().find(|topic| topic.name() == name).map_or(0, |topic| topic.partitions().len())
}

/// A broker does not know at once of what has just been made.
async fn has_partitions(brokers: &str, name: &str, count: usize) {
    eventually(name, async || (partitions(brokers, name) == count).then_some(())).await;
}

async fn make(brokers: &str, declared: &str, name: &str) -> Outcome {
    let topics: Topics = yaml_serde::from_str(declared).unwrap();
    topics.make(&client(brokers), &[name.to_owned()]).await.unwrap()
}

async fn setting(brokers: &str, topic: &str, name: &str) -> Option<String> {
    let admin: AdminClient<DefaultClientContext> = client(brokers).create().unwrap();
    let described = admin.describe_configs(&[ResourceSpecifier::Topic(topic)], &AdminOptions::new()).await;
    let described = described.unwrap().remove(0).unwrap();
    described.get(name).and_then(|entry| entry.value.clone())
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn migrate_makes_a_topic_that_is_missing_as_it_is_declared() {
    let (brokers, name) = (required("KAFKA_BROKERS").unwrap(), unique("ordered"));
    let config = config(&brokers, &declared(&name, 5));

    config.make_topics("shop", &[name.clone(), topics::dead_letters(&name, "shop")]).await.unwrap();

    has_partitions(&brokers, &name, 5).await;
    let days = |count: u64| Some((count * 24 * 60 * 60 * 1000).to_string());
    assert_eq!(setting(&brokers, &name, "retention.ms").await, days(14));
    let dead = topics::dead_letters(&name, "shop");
    has_partitions(&brokers, &dead, 1).await;
    assert_eq!(setting(&brokers, &dead, "retention.ms").await, days(30));
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn migrate_makes_no_topic_of_another_service() {
    let (brokers, name) = (required("KAFKA_BROKERS").unwrap(), unique("ordered"));
    let config = config(&brokers, &declared(&name, 5));
    let dead = topics::dead_letters(&name, "billing");

    config.make_topics("billing", &[name.clone(), dead.clone()]).await.unwrap();

    has_partitions(&brokers, &dead, 1).await;
    assert_eq!(partitions(&brokers, &name), 0);
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn a_topic_that_is_there_is_left_as_it_is_and_a_difference_is_told() {
    let (brokers, name) = (required("KAFKA_BROKERS").unwrap(), unique("ordered"));
    let first = make(&brokers, &declared(&name, 2), &name).await;
    assert_eq!(first.made, std::slice::from_ref(&name));

    let second = make(&brokers, &declared(&name, 3), &name).await;

    assert_eq!((second.made.len(), second.refused.len()), (0, 0));
    assert_eq!(second.differing, [format!("{name} has 2 partitions, not 3; it is left as it is")]);
    has_partitions(&brokers, &name, 2).await;
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo dev test --kafka real"]
async fn a_real_broker_makes_no_topic_by_accident() {
    let (brokers, name) = (required("KAFKA_BROKERS").unwrap(), unique("mistyped"));
    let mut client = client(&brokers);
    // Even for a client that would have it so.
    client.set("allow.auto.create.topics", "true").set("topic.metadata.propagation.max.ms", "1000");
    let producer: FutureProducer = client.create().unwrap();

    let sent = producer.send(FutureRecord::to(&name).key("1").payload("{}"), Duration::from_secs(20)).await;

    assert!(sent.is_err());
    assert_eq!(partitions(&brokers, &name), 0);
}

#[tokio::test]
async fn a_broker_without_the_admin_api_is_told_of_and_fails_no_migration() {
    let embedded = Embedded::start(&[]).unwrap();
    let (brokers, name) = (embedded.bootstrap_servers().unwrap(), unique("ordered"));
    let (declared, names) = (declared(&name, 5), [name.clone()]);
    let config = config(&brokers, &declared);

    // Side by side, since each waits for an answer that does not come.
    let (outcome, migration) =
        tokio::join!(make(&brokers, &declared, &name), config.make_topics("shop", &names));

    assert_eq!(outcome.made.len(), 0);
    assert!(outcome.refused[0].starts_with(&format!("{name} cannot be made: ")), "{outcome:?}");
    migration.unwrap();
}

#[tokio::test]
async fn topics_that_are_made_elsewhere_need_no_broker() {
    let broker = TcpListener::bind("127.0.0.1:0").unwrap();
    broker.set_nonblocking(true).unwrap();
    let config = config(&broker.local_addr().unwrap().to_string(), "elsewhere");

    config.make_topics("shop", &[unique("ordered")]).await.unwrap();

    assert_eq!(broker.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "a broker was asked");
}

#[tokio::test]
async fn a_declaration_that_cannot_be_read_is_a_mistake_of_the_configuration() {
    let mut env = Env::new(|name| match name {
        "KAFKA_BROKERS" => Some("127.0.0.1:9092".to_owned()),
        "KAFKA_TOPICS" => Some("topics: many".to_owned()),
        _ => None,
    });
    let config = Config::read(&mut env);
    let error = env.finish(config).unwrap_err().to_string();
    assert!(error.contains("KAFKA_TOPICS is not valid"), "{error}");
}
