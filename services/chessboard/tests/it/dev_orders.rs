//! Histories of a company and of its outside profile, delivered in every order that Kafka may: each topic of a key in its
//! own, one between the other as it happens. All end in one state.

use futures_util::future::join_all;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    COMPANY_SUSPENDED, COMPANY_UPSERTED, OUTSIDE_UPSERTED, company, create_published_developer, eventually,
    guid, next, outside, read, service, with,
};

/// What is published, but for whom: of a company, of its suspension, of an outside profile.
#[derive(Clone, Debug)]
struct Told {
    topic: &'static str,
    version: i64,
    status: &'static str,
    name: String,
}

/// A history: where it begins, and the events of each topic in their order.
#[derive(Clone, Debug)]
struct History {
    /// The profile is there and Published, and its company Active under version 1; else nobody has heard of either.
    begins_published: bool,
    topics: Vec<Vec<Told>>,
    last_status: &'static str,
    /// Of the outside profile where there is one, else of the company.
    last_name: String,
    replica_version: Option<i64>,
}

fn history(begins_published: bool, companies: Vec<(usize, u8)>, outsides: Vec<u8>) -> History {
    let (mut upserted, mut suspended, mut status) = (Vec::new(), Vec::new(), "Active");
    let mut name = "Ромашка".to_owned();
    let ends_active = outsides.is_empty() && !begins_published;
    let count = companies.len();
    for (at, (next_status, renamed)) in companies.into_iter().enumerate() {
        let is_last = at + 1 == count;
        let now =
            if is_last && ends_active { "Active" } else { ["Active", "Suspended", "Archived"][next_status] };
        if renamed > 0 {
            name = format!("имя {renamed}");
        }
        let version = i64::try_from(at).unwrap() + 2;
        let told = |topic| Told { topic, version, status: now, name: name.clone() };
        if now == "Suspended" && status == "Active" {
            suspended.push(told(COMPANY_SUSPENDED));
        }
        upserted.push(told(COMPANY_UPSERTED));
        status = now;
    }
    let outside: Vec<_> = outsides
        .into_iter()
        .scan(0, |version, step| {
            *version += i64::from(step);
            Some(Told {
                topic: OUTSIDE_UPSERTED,
                version: *version,
                status: "",
                name: format!("внешнее {version}"),
            })
        })
        .collect();
    let last = outside.last();
    History {
        begins_published,
        last_status: status,
        last_name: last.map_or(name, |last| last.name.clone()),
        replica_version: last.map(|last| last.version),
        topics: vec![upserted, suspended, outside],
    }
}

fn histories() -> impl Strategy<Value = History> {
    let companies = prop::collection::vec((0..3_usize, 0..3_u8), 1..=4);
    (any::<bool>(), companies, prop::collection::vec(1..3_u8, 0..=3))
        .prop_map(|(published, companies, outsides)| history(published, companies, outsides))
}

/// Every order in which the topics may be merged.
fn orders(topics: &[Vec<Told>]) -> Vec<Vec<Told>> {
    if topics.iter().all(Vec::is_empty) {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (at, topic) in topics.iter().enumerate() {
        let Some((first, rest)) = topic.split_first() else { continue };
        let mut left = topics.to_vec();
        left[at] = rest.to_vec();
        all.extend(orders(&left).into_iter().map(|later| [vec![first.clone()], later].concat()));
    }
    all
}

/// Publishes an event and waits until it has been taken.
async fn deliver(told: &Told, company_id: Uuid, outside_id: Uuid, logo: Uuid) {
    let (bus, sql) = (service().bus(), service().sql().await);
    if told.topic == OUTSIDE_UPSERTED {
        let payload = with(outside(outside_id, company_id, told.version), "Name", told.name.clone());
        let payload = with(payload, "LogoFileId", json!(logo)).to_string();
        let event_id = guid().to_string();
        let headers = [("ce_id", event_id.clone()), ("ce_source", "/outside".to_owned())];
        bus.publish_raw(told.topic, outside_id.to_string().as_bytes(), &headers, payload.as_bytes()).await;
        let event_id = json!([told.topic, "/outside", event_id]).to_string();
        let seen = "select 1 from inbox_event where event_id = $1";
        eventually("the outside event", async || sql.query_opt(seen, &[&event_id]).await.unwrap()).await;
    } else {
        let payload = with(company(company_id, told.status, told.version), "Name", told.name.clone());
        let payload = with(payload, "SuspendedAt", "2026-11-22T10:00:00Z");
        let (sequence, key) = (next(), company_id.to_string());
        bus.publish(told.topic, company_id, sequence, &payload).await;
        let seen = "select 1 from inbox where topic = $1 and key = $2 and sequence >= $3";
        let ask = async || sql.query_opt(seen, &[&told.topic, &key, &sequence]).await.unwrap();
        eventually("the company's event", ask).await;
    }
}

/// What a history ends in when it is delivered so, each event twice.
async fn end(history: &History, order: &[Told]) -> Value {
    let (outside_id, logo) = (guid(), guid());
    let company_id = if history.begins_published { create_published_developer().await } else { guid() };
    for told in order {
        deliver(told, company_id, outside_id, logo).await;
        deliver(told, company_id, outside_id, logo).await;
    }
    let found = read(company_id).await;
    assert!(found["ExternalChessboardDeveloperId"].is_null() == history.replica_version.is_none());
    assert!(history.replica_version.is_none() || found["LogoFileId"] == json!(logo));
    json!([found["Status"], found["Name"], found["SyncSource"], found["ReplicaVersion"]])
}

fn expected(history: &History) -> Value {
    let status = match (history.begins_published, history.last_status) {
        (false, _) => "Draft",
        (true, "Active") => "Published",
        (true, _) => "Hidden",
    };
    let source = if history.replica_version.is_some() { "ExternalChessboard" } else { "Platform" };
    json!([status, history.last_name, source, history.replica_version])
}

/// Orders of one history that are tried.
const MOST: usize = 12;

/// Order between topics: of two versions the higher decides, whatever arrives first, and nothing is missed.
#[test]
fn a_history_ends_in_one_state_in_every_order_that_kafka_may_deliver() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases: 8, failure_persistence: None, ..Config::default() });
    let result = runner.run(&histories(), |history| {
        let orders = orders(&history.topics);
        let step = orders.len().div_ceil(MOST);
        let tried: Vec<_> = orders.into_iter().step_by(step).collect();
        let ends = tokio.block_on(join_all(tried.iter().map(|order| end(&history, order))));
        for (order, end) in tried.iter().zip(ends) {
            prop_assert_eq!(end, expected(&history), "{:?}", order);
        }
        Ok(())
    });
    result.unwrap();
}

/// The orders of a short history, each of them: an outside profile, a suspension told on both topics, a reactivation.
#[tokio::test]
async fn each_order_of_a_short_history_ends_alike() {
    for begins_published in [false, true] {
        let history = history(begins_published, vec![(1, 1), (0, 2)], vec![1]);
        let orders = orders(&history.topics);
        assert_eq!(orders.len(), 12);
        for (order, end) in orders.iter().zip(join_all(orders.iter().map(|order| end(&history, order))).await)
        {
            assert_eq!(end, expected(&history), "{order:?}");
        }
    }
}
