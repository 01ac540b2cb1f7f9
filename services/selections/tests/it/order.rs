//! The order of a selection's events over the four topics, which Kafka does not keep.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use testkit::bus::Published;

use crate::{
    CREATED, DELETED, FROM_FAVORITES, ITEM_ADDED, UPDATED, guid, items_of, items_path, mark, path, service,
    text, topics,
};

/// A reference consumer of the four topics. It restores the order of a selection's events from
/// `ce_sequence`, in whatever order they arrive.
#[derive(Default)]
struct SelectionHistory {
    by_sequence: BTreeMap<i64, Published>,
}

/// The state of a selection that the events describe.
#[derive(Debug, Default, PartialEq)]
struct SelectionState {
    title: String,
    items_count: u64,
    version: i64,
    added: BTreeSet<String>,
    is_deleted: bool,
}

impl SelectionHistory {
    /// Receives an event. A repeat has the sequence of the first delivery and changes nothing.
    fn receive(&mut self, event: &Published) {
        self.by_sequence.entry(event.sequence()).or_insert_with(|| event.clone());
    }

    /// Returns the received events in the order of their commits.
    fn events(&self) -> Vec<Published> {
        self.by_sequence.values().cloned().collect()
    }

    /// Applies the received events in the order of their commits.
    fn state(&self) -> SelectionState {
        let mut state = SelectionState::default();
        for Published { topic, payload, .. } in self.by_sequence.values() {
            match topic.as_str() {
                CREATED => {
                    text(&payload["Title"]).clone_into(&mut state.title);
                    state.items_count = payload["ItemsCount"].as_u64().unwrap();
                    state.version = 1;
                }
                UPDATED => {
                    state.items_count = payload["ItemsCount"].as_u64().unwrap();
                    state.version = payload["Version"].as_i64().unwrap();
                }
                ITEM_ADDED => {
                    state.added.insert(text(&payload["PropertyObjectId"]).to_owned());
                }
                DELETED => state.is_deleted = true,
                other => panic!("unexpected topic {other}"),
            }
        }
        state
    }
}

/// Returns every order of the topics.
fn permutations(topics: &[&'static str]) -> Vec<Vec<&'static str>> {
    let Some((first, rest)) = topics.split_first() else { return vec![Vec::new()] };
    let insert = |order: Vec<&'static str>| {
        (0..=order.len()).map(move |at| [&order[..at], &[*first], &order[at..]].concat())
    };
    permutations(rest).into_iter().flat_map(insert).collect()
}

/// RULE-SEL-034, RULE-EVT-011, RULE-EVT-022: within a topic the events of a selection arrive in the
/// order of their commits. `ce_sequence` restores this order over the topics, whichever topic a
/// consumer reads first, and with repeats.
#[tokio::test]
async fn sequence_restores_the_order_over_four_topics() {
    let (_, owner) = service().user();
    let objects = [guid(), guid(), guid(), guid()];
    for object in &objects[..2] {
        mark(&owner, *object).await;
    }
    let selection = owner.post(FROM_FAVORITES, json!({"Title": "Spring"})).await.expect(201);
    let replace = async |objects: &[uuid::Uuid]| {
        owner.put(&items_path(&selection), json!({"Items": items_of(objects)})).await.expect(200);
    };
    replace(&objects[1..]).await;
    owner.put(&path(&selection), json!({"Title": "Summer", "Description": null})).await.expect(200);
    replace(&objects[2..]).await;
    owner.delete(&path(&selection)).await.expect(204);

    // In the order of arrival.
    let arrived = service().published(text(&selection["Id"])).await;

    for topic in [CREATED, UPDATED, ITEM_ADDED, DELETED] {
        let of_topic = arrived.iter().filter(|event| event.topic == topic);
        let sequences: Vec<i64> = of_topic.map(Published::sequence).collect();
        assert!(sequences.is_sorted(), "{topic}: {sequences:?}");
    }
    let committed =
        [CREATED, ITEM_ADDED, ITEM_ADDED, UPDATED, ITEM_ADDED, ITEM_ADDED, UPDATED, UPDATED, DELETED];
    let state = SelectionState {
        title: "Spring".to_owned(),
        items_count: 2,
        version: 4,
        added: objects.iter().map(ToString::to_string).collect(),
        is_deleted: true,
    };
    let of_topic = |topic: &&str| {
        let events = arrived.iter().filter(|event| event.topic == *topic);
        events.collect::<Vec<_>>()
    };
    let mut arrivals: Vec<Vec<&Published>> = vec![arrived.iter().collect(), arrived.iter().rev().collect()];
    for order in permutations(&[CREATED, UPDATED, ITEM_ADDED, DELETED]) {
        let once: Vec<_> = order.iter().flat_map(of_topic).collect();
        arrivals.push([once.clone(), once].concat());
    }
    assert_eq!(arrivals.len(), 2 + 24, "forwards, backwards and each order of the topics");
    for arrival in arrivals {
        let mut history = SelectionHistory::default();
        for event in arrival {
            history.receive(event);
        }
        assert_eq!(topics(&history.events()), committed);
        assert_eq!(history.state(), state);
    }
}

/// RULE-EVT-022: the AsyncAPI document says how a consumer of several topics restores the order.
#[test]
fn document_says_how_to_restore_the_order() {
    let documents = ::service::contracts::<selections::Service>().unwrap();
    for words in ["over all topics of the service", "restores it from `ce_sequence`"] {
        assert_eq!(documents.asyncapi.matches(words).count(), 4, "{words}");
    }
}
