//! Histories of one company and its one outside profile, delivered in every order that Kafka allows: the events of a topic in their own
//! order, those of two topics in any. No person moves the profile meanwhile. All orders end in one state.

use futures_util::future::join_all;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    COMPANY_SUSPENDED, COMPANY_UPSERTED, OUTSIDE_UPSERTED, company, create_published_developer, eventually,
    guid, next, operator, outside, path, read, service, with,
};

/// Stands where a topic does: a person describes the profile.
const DESCRIPTION: &str = "description";

/// An event without the ids of those it is about: of a company, of its suspension, of an outside profile.
#[derive(Clone, Debug)]
struct Event {
    topic: &'static str,
    version: i64,
    status: &'static str,
    /// Of a person's edit: the description.
    name: String,
    /// Which of two logos an outside profile has.
    logo: Option<usize>,
}

/// A history: where it begins, and the events of each topic in their order.
#[derive(Clone, Debug)]
struct History {
    /// The profile is there and Published, and its company Active under version 1; else the service knows neither.
    begins_published: bool,
    topics: Vec<Vec<Event>>,
    last_status: &'static str,
    /// Of the outside profile where there is one, else of the company.
    last_name: String,
    /// The version and the logo of the last outside event.
    replica: Option<(i64, Option<usize>)>,
    description: Option<&'static str>,
}

/// The companies' statuses and names, the outside profile's versions and logos. A Published profile always has a logo.
fn history(
    begins_published: bool,
    companies: Vec<(usize, u8)>,
    outsides: Vec<(u8, Option<usize>)>,
    is_described: bool,
) -> History {
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
        let event = |topic| Event { topic, version, status: now, name: name.clone(), logo: None };
        if now == "Suspended" && status == "Active" {
            suspended.push(event(COMPANY_SUSPENDED));
        }
        upserted.push(event(COMPANY_UPSERTED));
        status = now;
    }
    let mut version = 0;
    let mut outside = Vec::new();
    for (step, logo) in outsides {
        version += i64::from(step);
        let logo = if begins_published { logo.or(Some(0)) } else { logo };
        let name = format!("внешнее {version}");
        outside.push(Event { topic: OUTSIDE_UPSERTED, version, status: "", name, logo });
    }
    // Before there is a profile, nobody can describe it.
    let described = Some("Новое описание").filter(|_| begins_published && is_described);
    let edits = described.map(|description| Event {
        topic: DESCRIPTION,
        version: 0,
        status: "",
        name: description.to_owned(),
        logo: None,
    });
    let last = outside.last();
    History {
        begins_published,
        last_status: status,
        last_name: last.map_or(name, |last| last.name.clone()),
        replica: last.map(|last| (last.version, last.logo)),
        description: if begins_published { described.or(Some("Строим дома")) } else { None },
        topics: vec![upserted, suspended, outside, edits.into_iter().collect()],
    }
}

fn histories() -> impl Strategy<Value = History> {
    let companies = prop::collection::vec((0..3_usize, 0..3_u8), 1..=4);
    let outsides = prop::collection::vec((1..3_u8, prop::option::of(0..2_usize)), 0..=3);
    (any::<bool>(), companies, outsides, any::<bool>()).prop_map(
        |(begins_published, companies, outsides, is_described)| {
            history(begins_published, companies, outsides, is_described)
        },
    )
}

/// Every order in which the topics may be merged.
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

/// The ids of a delivery.
struct Ids {
    company: Uuid,
    outside: Uuid,
    logos: [Uuid; 2],
}

impl Ids {
    async fn of(history: &History) -> Self {
        let company = if history.begins_published { create_published_developer().await } else { guid() };
        Self { company, outside: guid(), logos: [guid(), guid()] }
    }

    /// Publishes an event and waits until the service has handled it.
    async fn deliver(&self, event: &Event) {
        let (bus, sql) = (service().bus(), service().sql().await);
        match event.topic {
            DESCRIPTION => {
                let body = with(read(self.company).await, "Description", event.name.clone());
                operator().put(&path(self.company, ""), body).await.expect(200);
            }
            OUTSIDE_UPSERTED => {
                let payload = outside(self.outside, self.company, event.version);
                let payload = with(payload, "Name", event.name.clone());
                let payload = with(payload, "LogoFileId", json!(event.logo.map(|logo| self.logos[logo])));
                let (event_id, key) = (guid().to_string(), self.outside.to_string());
                let headers = [("ce_id", event_id.clone()), ("ce_source", "/outside".to_owned())];
                bus.publish_raw(event.topic, key.as_bytes(), &headers, payload.to_string().as_bytes()).await;
                let event_id = json!([event.topic, "/outside", event_id]).to_string();
                let seen = "select 1 from inbox_event where event_id = $1";
                let ask = async || sql.query_opt(seen, &[&event_id]).await.unwrap();
                eventually("the outside event", ask).await;
            }
            _ => {
                let payload = company(self.company, event.status, event.version);
                let payload = with(payload, "Name", event.name.clone());
                let payload = with(payload, "SuspendedAt", "2026-11-22T10:00:00Z");
                let (sequence, key) = (next(), self.company.to_string());
                bus.publish(event.topic, self.company, sequence, &payload).await;
                let seen = "select 1 from inbox where topic = $1 and key = $2 and sequence >= $3";
                let ask = async || sql.query_opt(seen, &[&event.topic, &key, &sequence]).await.unwrap();
                eventually("the company's event", ask).await;
            }
        }
    }
}

/// Returns the state in which a history ends when it is delivered in this order, each event twice. At the end the first event of each topic
/// is delivered once more, as a replay does.
async fn end(history: &History, order: &[Event]) -> Value {
    let ids = Ids::of(history).await;
    for event in order {
        ids.deliver(event).await;
        ids.deliver(event).await;
    }
    for first in history.topics.iter().filter_map(|topic| topic.first()) {
        ids.deliver(first).await;
    }
    let found = read(ids.company).await;
    assert!(found["ExternalChessboardDeveloperId"].is_null() == history.replica.is_none());
    // A profile that was never replicated has a logo of its own, or none.
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

/// Orders of one history that are tried.
const MOST: usize = 12;

/// Order between topics: of two versions the higher decides, whatever arrives first, and nothing is missed. What a person writes into the
/// fields that are theirs alone stays.
#[test]
fn a_history_ends_in_one_state_in_every_order_unless_a_published_profile_lacks_its_logo() {
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

/// Every order of a short history: an outside profile, a suspension on both topics, a reactivation.
#[tokio::test]
async fn a_short_history_ends_in_one_state_in_each_of_its_orders() {
    for begins_published in [false, true] {
        let history = history(begins_published, vec![(1, 1), (0, 2)], vec![(1, Some(0))], false);
        let orders = orders(&history.topics);
        assert_eq!(orders.len(), 12);
        for (order, end) in orders.iter().zip(join_all(orders.iter().map(|order| end(&history, order))).await)
        {
            assert_eq!(end, expected(&history), "{order:?}");
        }
    }
}

/// The exception of section 4: a reactivation that finds the profile without a logo ends identity's claim. The profile then stays Hidden
/// although the logo arrives later on another topic, and the company stays Active; in the other order it is Published.
#[tokio::test]
async fn a_reactivation_between_a_logos_removal_and_its_return_leaves_the_profile_hidden() {
    let mut history = history(true, vec![(1, 0), (0, 0), (0, 1)], vec![(1, None), (1, Some(1))], false);
    history.topics[2][0].logo = None;
    let [upserted, _, outside, _] = history.topics.as_slice() else { panic!("{history:?}") };
    let (company, outside) = (upserted.clone(), outside.clone());
    let apart = [company.clone(), outside.clone()].concat();
    let between = [&outside[..1], &company[..2], &outside[1..], &company[2..]].concat();
    for (order, status) in [(apart, "Published"), (between, "Hidden")] {
        let end = end(&history, &order).await;
        assert_eq!(end, with_status(expected(&history), status), "{order:?}");
    }
}

fn with_status(mut end: Value, status: &str) -> Value {
    end[0] = json!(status);
    end
}
