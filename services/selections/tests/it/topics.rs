//! A deployment whose topics are not there yet: a consumer may be deployed before its producer.

use std::time::Duration;

use selections::Service;
use testkit::broker::Embedded;
use testkit::bus::Bus;
use testkit::service::Running;

use crate::consumer::object;
use crate::{CREATED, OBJECT_UPSERTED, create_selection_of, guid, listed, text};

/// A client looks for topics anew every 30 s.
const SOON: Duration = Duration::from_mins(2);

/// Messaging: without its topics a service answers, keeps what it has to tell, and goes on once they are made.
#[tokio::test]
async fn a_service_waits_for_topics_that_are_missing() {
    let broker = Embedded::start(&[]).unwrap();
    let brokers = broker.bootstrap_servers().unwrap();
    let service = Running::start::<Service>(&[("KAFKA_BROKERS", &brokers)]);
    let (_, owner) = service.user();
    let known = guid();
    let created = create_selection_of(&owner, listed(&[known])).await;

    let topics = service::topics::<Service>();
    for topic in &topics {
        broker.create_topic(topic).unwrap();
    }

    let bus = Bus::connect(&brokers, &topics).unwrap();
    bus.publish(OBJECT_UPSERTED, known, 1, &object(known, 1, "12")).await;
    let replica = service.sql().await;
    let went_on = async {
        loop {
            let told = bus.events(text(&created["Id"])).iter().any(|event| event.topic == CREATED);
            let heard = replica.query("select from property_object", &[]).await.unwrap();
            if told && !heard.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    assert!(tokio::time::timeout(SOON, went_on).await.is_ok(), "it still waits for topics that are there");
}
