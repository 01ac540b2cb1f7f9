//! Histories of a company and its external profile in every order that Kafka may deliver.
//!
//! Events of one topic stay in order, and events of two topics may swap. No user changes the status
//! during a history.

use futures_util::future::join_all;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    COMPANY_SUSPENDED, COMPANY_UPSERTED, EXTERNAL_UPSERTED, administrator, company_event,
    create_published_developer, eventually, external_profile, guid, next_sequence, path, read_developer,
    service, with,
};

/// The pseudo topic of a user's edit of the description.
const DESCRIPTION: &str = "description";

/// An event of a topic, or a user's edit, without ids.
#[derive(Clone, Debug)]
struct Event {
    topic: &'static str,
    version: i64,
    status: &'static str,
    /// The name, or the description for a user's edit.
    name: String,
    /// The index of the logo of an external profile.
    logo: Option<usize>,
}

/// The initial state and the events of each topic in their order, with the expected result.
#[derive(Clone, Debug)]
struct History {
    /// True if the history begins with a Published profile of an Active company. Otherwise the
    /// company is unknown at the beginning.
    begins_published: bool,
    topics: Vec<Vec<Event>>,
    last_status: &'static str,
    /// The last name of the external profile if there is one, otherwise of the company.
    last_name: String,
    /// The version and the logo of the last external event.
    replica: Option<(i64, Option<usize>)>,
    description: Option<&'static str>,
}

/// Creates a history from the events of the company and of the external profile.
///
/// `companies` has indexes of statuses, and numbers of new names, where 0 keeps the name.
/// `externals` has steps of the version, and logos. If the history begins Published, the last logo
/// is never null.
fn history(
    begins_published: bool,
    companies: Vec<(usize, u8)>,
    externals: Vec<(u8, Option<usize>)>,
    is_described: bool,
) -> History {
    let (mut upserted, mut suspended, mut status) = (Vec::new(), Vec::new(), "Active");
    let mut name = "Ромашка".to_owned();
    // Without an external profile, only an Active company gets a profile.
    let ends_active = externals.is_empty() && !begins_published;
    let count = companies.len();
    for (at, (next_status, renamed)) in companies.into_iter().enumerate() {
        let is_last = at + 1 == count;
        let now =
            if is_last && ends_active { "Active" } else { ["Active", "Suspended", "Archived"][next_status] };
        if renamed > 0 {
            name = format!("имя {renamed}");
        }
        let version = i64::try_from(at).unwrap() + 2;
        let event = |topic| Event { topic, version, status: now, name: name.clone(), logo: None };
        if now == "Suspended" && status == "Active" {
            suspended.push(event(COMPANY_SUSPENDED));
        }
        upserted.push(event(COMPANY_UPSERTED));
        status = now;
    }
    let mut version = 0;
    let mut external = Vec::new();
    let count = externals.len();
    for (at, (step, logo)) in externals.into_iter().enumerate() {
        version += i64::from(step);
        let logo = if begins_published && at + 1 == count { logo.or(Some(0)) } else { logo };
        let name = format!("внешнее {version}");
        external.push(Event { topic: EXTERNAL_UPSERTED, version, status: "", name, logo });
    }
    // Without a profile there is no edit.
    let described = Some("Новое описание").filter(|_| begins_published && is_described);
    let edits = described.map(|description| Event {
        topic: DESCRIPTION,
        version: 0,
        status: "",
        name: description.to_owned(),
        logo: None,
    });
    let last = external.last();
    History {
        begins_published,
        last_status: status,
        last_name: last.map_or(name, |last| last.name.clone()),
        replica: last.map(|last| (last.version, last.logo)),
        description: if begins_published { described.or(Some("Строим дома")) } else { None },
        topics: vec![upserted, suspended, external, edits.into_iter().collect()],
    }
}

fn histories() -> impl Strategy<Value = History> {
    let companies = prop::collection::vec((0..3_usize, 0..3_u8), 1..=4);
    let externals = prop::collection::vec((1..3_u8, prop::option::of(0..2_usize)), 0..=3);
    (any::<bool>(), companies, externals, any::<bool>()).prop_map(
        |(begins_published, companies, externals, is_described)| {
            history(begins_published, companies, externals, is_described)
        },
    )
}

/// Returns every order in which the topics may be merged.
fn orders(topics: &[Vec<Event>]) -> Vec<Vec<Event>> {
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

/// The ids of one delivery of a history.
struct Ids {
    company: Uuid,
    external: Uuid,
    logos: [Uuid; 2],
}

impl Ids {
    async fn of(history: &History) -> Self {
        let company = if history.begins_published { create_published_developer().await } else { guid() };
        Self { company, external: guid(), logos: [guid(), guid()] }
    }

    /// Publishes an event and waits until the service has handled it, or sends a user's edit.
    async fn deliver(&self, event: &Event) {
        let (bus, sql) = (service().bus(), service().sql().await);
        match event.topic {
            DESCRIPTION => {
                let body = with(read_developer(self.company).await, "Description", event.name.clone());
                administrator().put(&path(self.company, ""), body).await.expect(200);
            }
            EXTERNAL_UPSERTED => {
                let payload = external_profile(self.external, self.company, event.version);
                let payload = with(payload, "Name", event.name.clone());
                let payload = with(payload, "LogoFileId", json!(event.logo.map(|logo| self.logos[logo])));
                let (event_id, key) = (guid().to_string(), self.external.to_string());
                let headers = [("ce_id", event_id.clone()), ("ce_source", "/external".to_owned())];
                bus.publish_raw(event.topic, key.as_bytes(), &headers, payload.to_string().as_bytes()).await;
                let event_id = json!([event.topic, "/external", event_id]).to_string();
                let seen = "select 1 from inbox_event where event_id = $1";
                let find = async || sql.query_opt(seen, &[&event_id]).await.unwrap();
                eventually("the external event to be handled", find).await;
            }
            _ => {
                let payload = company_event(self.company, event.status, event.version);
                let payload = with(payload, "Name", event.name.clone());
                let payload = with(payload, "SuspendedAt", "2026-11-22T10:00:00Z");
                let (sequence, key) = (next_sequence(), self.company.to_string());
                bus.publish(event.topic, self.company, sequence, &payload).await;
                let seen = "select 1 from inbox where topic = $1 and key = $2 and sequence >= $3";
                let find = async || sql.query_opt(seen, &[&event.topic, &key, &sequence]).await.unwrap();
                eventually("the company's event to be handled", find).await;
            }
        }
    }
}

/// Delivers a history in this order and returns the final state.
///
/// The function delivers each event twice. At the end it delivers the first event of each topic
/// once more, like a replay.
async fn deliver_history(history: &History, order: &[Event]) -> Value {
    let ids = Ids::of(history).await;
    for event in order {
        ids.deliver(event).await;
        ids.deliver(event).await;
    }
    for first in history.topics.iter().filter_map(|topic| topic.first()) {
        ids.deliver(first).await;
    }
    let found = read_developer(ids.company).await;
    assert!(found["ExternalChessboardDeveloperId"].is_null() == history.replica.is_none());
    // The logo of a profile without external events is not compared.
    let logo = history.replica.map(|_| ids.logos.iter().position(|logo| found["LogoFileId"] == json!(logo)));
    json!([
        found["Status"],
        found["Name"],
        found["SyncSource"],
        found["ReplicaVersion"],
        logo,
        found["Description"]
    ])
}

fn expected(history: &History) -> Value {
    let status = match (history.begins_published, history.last_status) {
        (false, _) => "Draft",
        (true, "Active") => "Published",
        (true, _) => "Hidden",
    };
    let source = if history.replica.is_some() { "ExternalChessboard" } else { "Platform" };
    let (version, logo) = history.replica.unzip();
    json!([status, history.last_name, source, version, logo.flatten(), history.description])
}

/// Maximum number of orders to try for one history.
const MAX_ORDERS: usize = 12;

/// RULE-CHS-008, RULE-EVT-023: the higher version decides in every order of delivery, and a user's
/// edit of other fields stays. In these histories the last external event of a Published profile
/// has a logo.
#[test]
fn history_ends_in_one_state_in_every_order() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases: 8, failure_persistence: None, ..Config::default() });
    let result = runner.run(&histories(), |history| {
        let orders = orders(&history.topics);
        let step = orders.len().div_ceil(MAX_ORDERS);
        let tried: Vec<_> = orders.into_iter().step_by(step).collect();
        let ends = tokio.block_on(join_all(tried.iter().map(|order| deliver_history(&history, order))));
        for (order, end) in tried.iter().zip(ends) {
            prop_assert_eq!(end, expected(&history), "{:?}", order);
        }
        Ok(())
    });
    result.unwrap();
}

/// RULE-CHS-008: an external profile, a suspension on both topics and a reactivation lead to the
/// same state in all twelve orders.
#[tokio::test]
async fn short_history_ends_in_one_state_in_all_orders() {
    for begins_published in [false, true] {
        let history = history(begins_published, vec![(1, 1), (0, 2)], vec![(1, Some(0))], false);
        let orders = orders(&history.topics);
        assert_eq!(orders.len(), 12);
        for (order, end) in
            orders.iter().zip(join_all(orders.iter().map(|order| deliver_history(&history, order))).await)
        {
            assert_eq!(end, expected(&history), "{order:?}");
        }
    }
}

/// RULE-CHS-008: a reactivation that finds no logo publishes the profile when the logo arrives.
#[tokio::test]
async fn logo_after_reactivation_publishes_profile() {
    let history = history(true, vec![(1, 0), (0, 0), (0, 1)], vec![(1, None), (1, Some(1))], false);
    let [upserted, _, external, _] = history.topics.as_slice() else { panic!("{history:?}") };
    let (company, external) = (upserted.clone(), external.clone());
    let separate = [company.clone(), external.clone()].concat();
    let interleaved = [&external[..1], &company[..2], &external[1..], &company[2..]].concat();
    let late = [&external[..1], &company[..], &external[1..]].concat();
    for order in [separate, interleaved, late] {
        let end = deliver_history(&history, &order).await;
        assert_eq!(end, expected(&history), "{order:?}");
    }
}
