//! Histories of deals, delivered in every order that Kafka may: each topic of a key in its own, one between
//! the other as it happens.

use std::cell::Cell;

use db::{Db, Tx};
use diesel::sql_types::{Array, BigInt, Text};
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use runtime::Env;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::Thing;
use crate::contract::message::Place;
use crate::{Failure, Handler, MIGRATIONS, Message};

const CREATED: &str = "platform.crm.deal-created.v1";
const STAGE: &str = "platform.crm.deal-stage-changed.v1";
const CANCELLED: &str = "platform.crm.deal-cancelled.v1";
const COMPLETED: &str = "platform.crm.deal-completed.v1";

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Told {
    version: i64,
    agent: Option<String>,
}

#[derive(Clone, Debug)]
struct Event {
    topic: &'static str,
    told: Told,
}

impl Event {
    /// Of one change the cancellation ends more than the move, and the sale more than that.
    fn rank(topic: &str) -> i16 {
        match topic {
            COMPLETED => 2,
            CANCELLED => 1,
            _ => 0,
        }
    }

    fn status(&self) -> String {
        status(self.topic, self.told.version)
    }
}

fn status(topic: &str, version: i64) -> String {
    format!("{topic} {version}")
}

/// Keeps what it is told in a row for each deal, and a card for each stage.
struct Deals;

impl Handler for Deals {
    const GROUP: &'static str = "shop.crm";
    const TOPICS: &'static [&'static str] = &[CREATED, STAGE, CANCELLED, COMPLETED];

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        let deal = Thing::lock(tx, Self::GROUP, &message.key).await?;
        let told: Told = message.decode()?;
        if message.topic == CREATED {
            run(tx, "insert into deal (id, status) values ($1, '') on conflict do nothing", &[&message.key])
                .await?;
            apply(tx, &deal, message).await?;
            for kept in deal.take(tx).await? {
                apply(tx, &deal, &kept).await?;
            }
            return Ok(());
        }
        if run(tx, "update deal set id = id where id = $1", &[&message.key]).await? == 0 {
            return Ok(deal.keep(tx, message, told.version).await?);
        }
        apply(tx, &deal, message).await
    }
}

async fn apply(tx: &mut Tx, deal: &Thing, message: &Message) -> Result<(), Failure> {
    let (id, told): (_, Told) = (&message.key, message.decode()?);
    if deal.supersedes(tx, "status", told.version, Event::rank(&message.topic)).await? {
        let status = status(&message.topic, told.version);
        run(tx, "update deal set status = $2 where id = $1", &[id, &status]).await?;
    }
    if let Some(agent) = told.agent
        && deal.supersedes(tx, "agent", told.version, 0).await?
    {
        run(tx, "update deal set agent = $2 where id = $1", &[id, &agent]).await?;
    }
    if message.topic == STAGE && deal.supersedes(tx, "card", told.version, 0).await? {
        let add = "update deal set cards = cards || $2::bigint where id = $1";
        run(tx, add, &[id, &told.version.to_string()]).await?;
    }
    Ok(())
}

async fn run(tx: &mut Tx, sql: &str, values: &[&str]) -> Result<usize, db::Error> {
    let query = diesel::sql_query(sql).into_boxed();
    let query = values.iter().fold(query, |query, value| query.bind::<Text, _>(*value));
    Ok(query.execute(tx.conn()).await?)
}

#[derive(Debug, PartialEq, Eq, diesel::QueryableByName)]
struct Deal {
    #[diesel(sql_type = Text)]
    status: String,
    #[diesel(sql_type = Text)]
    agent: String,
    #[diesel(sql_type = Array<BigInt>)]
    cards: Vec<i64>,
}

/// A deal that is created, moved, and perhaps cancelled or completed, revived and so on: the events in the order in
/// which they were written.
fn histories() -> impl Strategy<Value = Vec<Event>> {
    let change = (1..3_i64, 0..4_usize, 0..3_u8);
    prop::collection::vec(change, 1..=3).prop_map(|changes| {
        let agent = |n: u8| Some(format!("agent {n}"));
        let mut version = 1;
        let mut events = vec![Event { topic: CREATED, told: Told { version, agent: agent(9) } }];
        for (step, kind, of) in changes {
            version += step;
            events.push(Event { topic: STAGE, told: Told { version, agent: agent(of) } });
            let ends: &[&str] = [&[][..], &[CANCELLED], &[COMPLETED], &[CANCELLED, COMPLETED]][kind];
            events.extend(ends.iter().map(|topic| Event { topic, told: Told { version, agent: None } }));
        }
        events
    })
}

/// What the newest event of each fact says.
fn expected(history: &[Event]) -> Deal {
    let last = history.iter().max_by_key(|event| (event.told.version, Event::rank(event.topic)));
    let agents = history.iter().filter(|event| event.told.agent.is_some());
    let agent = agents.max_by_key(|event| event.told.version).unwrap().told.agent.clone().unwrap();
    let cards = history.iter().filter(|event| event.topic == STAGE).map(|event| event.told.version);
    Deal { status: last.unwrap().status(), agent, cards: cards.collect() }
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

async fn database() -> Db {
    let url = testkit::database::create().await.unwrap();
    let mut env = Env::new(move |name| (name == "DATABASE_URL").then(|| url.clone()));
    let config = db::Config::read(&mut env, "shop");
    let config = env.finish(config).unwrap();
    db::migrate(&config, [MIGRATIONS]).await.unwrap();
    let db = Db::new(&config).unwrap();
    let table = "create table deal (id text primary key, status text not null, agent text not null default '', \
        cards bigint[] not null default '{}')";
    db.conn().await.unwrap().batch_execute(table).await.unwrap();
    db
}

/// Delivers each event, and each of them again under another id.
async fn deliver(db: &Db, deal: &str, order: &[Event]) -> Deal {
    for event in order {
        let at = Place { partition: 0, offset: 0, published_at: None };
        let payload = serde_json::to_vec(&event.told).unwrap();
        let message = Message::new(event.topic.to_owned(), at, deal.to_owned(), Map::new(), Some(payload));
        for _ in 0..2 {
            db.tx(async |tx| Deals::handle(tx, &message).await).await.unwrap();
        }
    }
    let query =
        diesel::sql_query("select status, agent, cards from deal where id = $1").bind::<Text, _>(deal);
    query.get_result(&mut db.conn().await.unwrap()).await.unwrap()
}

/// Orders of one history that are tried.
const MOST: usize = 100;

#[test]
fn a_history_ends_in_one_state_in_every_order_that_kafka_may_deliver() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let db = tokio.block_on(database());
    let number = Cell::new(0);
    let mut runner = TestRunner::new(Config { cases: 6, failure_persistence: None, ..Config::default() });
    let result = runner.run(&histories(), |history| {
        let topics: Vec<Vec<Event>> = Deals::TOPICS
            .iter()
            .map(|topic| history.iter().filter(|event| event.topic == *topic).cloned().collect())
            .collect();
        // Every order of a short history; of a long one, which has thousands, some from all over.
        let orders = orders(&topics);
        for order in orders.iter().step_by(orders.len() / MOST + 1) {
            number.set(number.get() + 1);
            let state = tokio.block_on(deliver(&db, &number.get().to_string(), order));
            prop_assert_eq!(state, expected(&history), "{:?}", order);
        }
        Ok(())
    });
    result.unwrap();
    eprintln!("{} orders", number.get());
}

#[tokio::test]
async fn what_waits_for_a_thing_is_not_missed_by_what_makes_it_known() {
    let db = database().await;
    let message = |topic: &str, version| {
        let at = Place { partition: 0, offset: 0, published_at: None };
        let payload = serde_json::to_vec(&Told { version, agent: Some(String::new()) }).unwrap();
        Message::new(topic.to_owned(), at, "raced".to_owned(), Map::new(), Some(payload))
    };
    for round in 0..50 {
        let clear = "truncate deal, thing_fact, thing_waiting";
        db.conn().await.unwrap().batch_execute(clear).await.unwrap();
        let (created, stage) = (message(CREATED, 1), message(STAGE, 2));
        let (one, other) = tokio::join!(
            db.tx(async |tx| Deals::handle(tx, &created).await),
            db.tx(async |tx| Deals::handle(tx, &stage).await),
        );
        one.and(other).unwrap();
        let query = diesel::sql_query("select status, agent, cards from deal");
        let deal: Deal = query.get_result(&mut db.conn().await.unwrap()).await.unwrap();
        assert_eq!(deal.cards, [2], "in round {round}");
    }
}
