//! Every consumer applies every message that the document of the publisher allows.

#![expect(clippy::unwrap_used, reason = "missing data fails the test")]

use std::collections::HashMap;
use std::path::Path;

use devstack::services;
use serde_json::{Value, json};
use service::Service;
use testkit::contract::Contract;
use testkit::service::Running;
use testkit::{eventually, guid};

const DEAL_CREATED: &str = "platform.crm.deal-created.v1";
const OUTSIDE: &str = "external.chessboard.developer-upserted.v1";

/// Returns the documents of all services and of the external system, whose document is written by
/// hand.
fn documents() -> Vec<Contract> {
    let outside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../contracts/outside/chessboard.yaml");
    let outside = std::fs::read_to_string(outside).unwrap();
    let services = services::all().into_iter().map(|service| (service.contracts)().unwrap().asyncapi);
    services.chain([outside]).map(|document| Contract::read(&document).unwrap()).collect()
}

/// Returns sample messages of a topic, with each member at each limit of its schema.
fn messages(documents: &[Contract], topic: &str) -> Vec<Value> {
    documents
        .iter()
        .find_map(|document| document.payload_samples(topic))
        .unwrap_or_else(|| panic!("no service publishes {topic}"))
}

/// Publishes every allowed message to a service, waits until it has processed them, and asserts
/// that none is dead-lettered.
async fn assert_applies_every_message<S: Service>(settings: &[(&str, &str)]) {
    let service = Running::start::<S>(settings);
    let documents = documents();
    let topics: Vec<_> = S::CONSUMERS.iter().flat_map(|subscription| subscription.topics).collect();
    let mut published = HashMap::new();
    for topic in &topics {
        for mut payload in messages(&documents, topic) {
            // Two profiles for one company, or one profile for two companies, are a conflict.
            if **topic == OUTSIDE {
                payload["CompanyId"] = json!(guid());
                payload["ExternalChessboardDeveloperId"] = json!(guid());
            }
            // A consumer defers a change of a deal until it has the deal.
            if payload.get("DealId").is_some() && topics.contains(&&DEAL_CREATED) {
                let mut created = messages(&documents, DEAL_CREATED).swap_remove(0);
                created["DealId"] = payload["DealId"].clone();
                let key = guid();
                service.bus().publish(DEAL_CREATED, key, 1, &created).await;
                published.insert(key.to_string(), created);
            }
            let key = guid();
            service.bus().publish(topic, key, 1, &payload).await;
            published.insert(key.to_string(), payload);
        }
    }
    let sql = service.sql().await;
    let keys: Vec<_> = published.keys().collect();
    eventually("all messages are processed", async || {
        let seen = "select count(*) from inbox where key = any($1)";
        let seen: i64 = sql.query_one(seen, &[&keys]).await.unwrap().get(0);
        (usize::try_from(seen) == Ok(published.len())).then_some(())
    })
    .await;
    let rejected = sql.query("select topic, key, error from dead_letter", &[]).await.unwrap();
    let rejected = rejected.iter().map(|row| {
        let (topic, key, error): (&str, &str, &str) = (row.get(0), row.get(1), row.get(2));
        format!("{topic}: {error}: {}", published.get(key).unwrap_or(&json!("of another test")))
    });
    let rejected: Vec<_> = rejected.collect();
    assert!(rejected.is_empty(), "{} of {}: {rejected:#?}", rejected.len(), published.len());
}

#[test]
fn each_service_with_consumers_has_a_test() {
    for service in services::all().iter().filter(|service| !service.consumers.is_empty()) {
        let call = format!("assert_applies_every_message::<{}::Service>", service.name);
        assert!(include_str!("consumers.rs").contains(&call), "{}", service.name);
    }
}

/// RULE-ALL-067: the consumers accept every message that their publishers' documents allow.
#[tokio::test]
async fn chessboard_applies_every_message_of_its_publishers() {
    assert_applies_every_message::<chessboard::Service>(&[]).await;
}

/// RULE-ALL-067: the consumers accept every message that their publishers' documents allow.
#[tokio::test]
async fn crm_applies_every_message_of_its_publishers() {
    let settings = [("SELECTIONS_URL", "http://127.0.0.1:9"), ("CLIENT_SECRET", "unused")];
    assert_applies_every_message::<crm::Service>(&settings).await;
}

/// RULE-ALL-067: the consumers accept every message that their publishers' documents allow.
#[tokio::test]
async fn messenger_applies_every_message_of_its_publishers() {
    assert_applies_every_message::<messenger::Service>(&[]).await;
}

/// RULE-ALL-067: the consumers accept every message that their publishers' documents allow.
#[tokio::test]
async fn agent_applies_every_message_of_its_publishers() {
    assert_applies_every_message::<agent::Service>(&[]).await;
}

/// RULE-ALL-067: the consumers accept every message that their publishers' documents allow.
#[tokio::test]
async fn selections_applies_every_message_of_its_publishers() {
    assert_applies_every_message::<selections::Service>(&[]).await;
}

/// RULE-ALL-067: the consumers accept every message that their publishers' documents allow.
#[tokio::test]
async fn news_applies_every_message_of_its_publishers() {
    let settings = [("SELECTIONS_URL", "http://127.0.0.1:9"), ("CLIENT_SECRET", "unused")];
    assert_applies_every_message::<news::Service>(&settings).await;
}
