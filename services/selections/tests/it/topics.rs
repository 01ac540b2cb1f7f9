//! Missing topics: a consumer can be deployed before its producer.

use std::time::Duration;

use selections::Service;
use testkit::broker::EmbeddedBroker;
use testkit::bus::Bus;
use testkit::service::Running;

use crate::consumer::object;
use crate::{CREATED, OBJECT_UPSERTED, create_selection_of, guid, items_of, text};

/// Timeout for the discovery of new topics. A client refreshes its topics every 30 s.
const DISCOVERY_TIMEOUT: Duration = Duration::from_mins(2);

/// RULE-ALL-059: without its topics the service serves requests, stores its events, and continues
/// once the topics exist.
#[tokio::test]
async fn service_waits_for_missing_topics() {
    let broker = EmbeddedBroker::start(&[]).unwrap();
    let brokers = broker.bootstrap_servers().unwrap();
    let service = Running::start::<Service>(&[("KAFKA_BROKERS", &brokers)]);
    let (_, owner) = service.user();
    let known = guid();
    let created = create_selection_of(&owner, items_of(&[known])).await;

    let topics = service::topics::<Service>();
    for topic in &topics {
        broker.create_topic(topic).unwrap();
    }

    let bus = Bus::connect(&brokers, &topics).unwrap();
    bus.publish(OBJECT_UPSERTED, known, 1, &object(known, 1, "12")).await;
    let sql = service.sql().await;
    let recovered = async {
        loop {
            let is_published = bus.events(text(&created["Id"])).iter().any(|event| event.topic == CREATED);
            let applied = sql.query("select from property_object", &[]).await.unwrap();
            if is_published && !applied.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    assert!(
        tokio::time::timeout(DISCOVERY_TIMEOUT, recovered).await.is_ok(),
        "the service still waits for existing topics"
    );
}
