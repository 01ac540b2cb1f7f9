//! Tests with histories of deals, delivered in every order that Kafka allows. The messages of one
//! topic and key keep their order, and the messages of different topics interleave.

use std::cell::Cell;

use db::{Db, Tx};
use diesel::sql_types::{Array, BigInt, Text};
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use runtime::Env;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::EntityLock;
use crate::MIGRATIONS;
use crate::contract::message::{KafkaPosition, Message};
use crate::failure::Failure;
use crate::handler::Handler;

const CREATED: &str = "platform.crm.deal-created.v1";
const STAGE: &str = "platform.crm.deal-stage-changed.v1";
const CANCELLED: &str = "platform.crm.deal-cancelled.v1";
const COMPLETED: &str = "platform.crm.deal-completed.v1";

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Payload {
    version: i64,
    agent: Option<String>,
}

#[derive(Clone, Debug)]
struct Event {
    topic: &'static str,
    payload: Payload,
}

impl Event {
    /// Orders the events of one change: a cancellation follows the move, and a sale follows both.
    fn tie_breaker(topic: &str) -> i16 {
        match topic {
            COMPLETED => 2,
            CANCELLED => 1,
            _ => 0,
        }
    }

    fn status(&self) -> String {
        status(self.topic, self.payload.version)
    }
}

fn status(topic: &str, version: i64) -> String {
    format!("{topic} {version}")
}

/// Stores the state of each deal in a row, with a card for each stage.
struct Deals;

impl Handler for Deals {
    const GROUP: &'static str = "shop.crm";
    const TOPICS: &'static [&'static str] = &[CREATED, STAGE, CANCELLED, COMPLETED];

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        let lock = EntityLock::acquire(tx, Self::GROUP, &message.key).await?;
        let payload: Payload = message.decode()?;
        if message.topic == CREATED {
            run(tx, "insert into deal (id) values ($1) on conflict do nothing", &[&message.key]).await?;
            apply(tx, message).await?;
            for deferred in lock.drain_deferred(tx).await? {
                apply(tx, &deferred).await?;
            }
            return Ok(());
        }
        if run(tx, "update deal set id = id where id = $1", &[&message.key]).await? == 0 {
            return Ok(lock.defer(tx, message, payload.version).await?);
        }
        apply(tx, message).await
    }
}

/// Applies each field that is newer than the stored one.
async fn apply(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
    let (id, payload): (_, Payload) = (&message.key, message.decode()?);
    let (version, tie) = (payload.version.to_string(), Event::tie_breaker(&message.topic).to_string());
    let newer_status = "update deal set status = $2, status_version = $3::bigint, tie_breaker = $4::bigint \
        where id = $1 and (status_version, tie_breaker) < ($3::bigint, $4::bigint)";
    run(tx, newer_status, &[id, &status(&message.topic, payload.version), &version, &tie]).await?;
    if let Some(agent) = payload.agent {
        let newer_agent = "update deal set agent = $2, agent_version = $3::bigint \
            where id = $1 and agent_version < $3::bigint";
        run(tx, newer_agent, &[id, &agent, &version]).await?;
    }
    if message.topic == STAGE {
        let add = "update deal set cards = cards || $2::bigint where id = $1 and not $2::bigint = any(cards)";
        run(tx, add, &[id, &version]).await?;
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

/// Generates histories of one deal in the order of publication. The deal is created, moved, and
/// perhaps cancelled, completed or revived.
fn histories() -> impl Strategy<Value = Vec<Event>> {
    let change = (1..3_i64, 0..4_usize, 0..3_u8);
    prop::collection::vec(change, 1..=3).prop_map(|changes| {
        let agent = |n: u8| Some(format!("agent {n}"));
        let mut version = 1;
        let mut events = vec![Event { topic: CREATED, payload: Payload { version, agent: agent(9) } }];
        for (step, kind, agent_number) in changes {
            version += step;
            events.push(Event { topic: STAGE, payload: Payload { version, agent: agent(agent_number) } });
            let ends: &[&str] = [&[][..], &[CANCELLED], &[COMPLETED], &[CANCELLED, COMPLETED]][kind];
            events
                .extend(ends.iter().map(|topic| Event { topic, payload: Payload { version, agent: None } }));
        }
        events
    })
}

/// Returns the state with the newest value of each field.
fn expected(history: &[Event]) -> Deal {
    let last = history.iter().max_by_key(|event| (event.payload.version, Event::tie_breaker(event.topic)));
    let agents = history.iter().filter(|event| event.payload.agent.is_some());
    let agent = agents.max_by_key(|event| event.payload.version).unwrap().payload.agent.clone().unwrap();
    let cards = history.iter().filter(|event| event.topic == STAGE).map(|event| event.payload.version);
    Deal { status: last.unwrap().status(), agent, cards: cards.collect() }
}

/// Returns every interleaving of the topics.
fn interleavings(topics: &[Vec<Event>]) -> Vec<Vec<Event>> {
    if topics.iter().all(Vec::is_empty) {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (at, topic) in topics.iter().enumerate() {
        let Some((first, rest)) = topic.split_first() else { continue };
        let mut left = topics.to_vec();
        left[at] = rest.to_vec();
        all.extend(interleavings(&left).into_iter().map(|later| [vec![first.clone()], later].concat()));
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
    let table = "create table deal (id text primary key, status text not null default '', \
        status_version bigint not null default 0, tie_breaker bigint not null default 0, \
        agent text not null default '', agent_version bigint not null default 0, \
        cards bigint[] not null default '{}')";
    db.conn().await.unwrap().batch_execute(table).await.unwrap();
    db
}

/// Delivers each event twice and returns the state of the deal.
async fn deliver(db: &Db, deal: &str, order: &[Event]) -> Deal {
    for event in order {
        let position = KafkaPosition { partition: 0, offset: 0, published_at: None };
        let payload = serde_json::to_vec(&event.payload).unwrap();
        let message =
            Message::new(event.topic.to_owned(), position, deal.to_owned(), Map::new(), Some(payload));
        for _ in 0..2 {
            db.tx(async |tx| Deals::handle(tx, &message).await).await.unwrap();
        }
    }
    let query =
        diesel::sql_query("select status, agent, cards from deal where id = $1").bind::<Text, _>(deal);
    query.get_result(&mut db.conn().await.unwrap()).await.unwrap()
}

/// The maximum number of delivery orders that a test tries for one history.
const MAX_ORDERS: usize = 100;

/// RULE-EVT-038, RULE-EVT-023: a history ends in one state in every delivery order.
#[test]
fn history_ends_in_one_state_in_every_delivery_order() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let db = tokio.block_on(database());
    let order_count = Cell::new(0);
    let mut runner = TestRunner::new(Config { cases: 6, failure_persistence: None, ..Config::default() });
    let result = runner.run(&histories(), |history| {
        let topics: Vec<Vec<Event>> = Deals::TOPICS
            .iter()
            .map(|topic| history.iter().filter(|event| event.topic == *topic).cloned().collect())
            .collect();
        // A long history has thousands of orders, so the test tries an even sample.
        let orders = interleavings(&topics);
        for order in orders.iter().step_by(orders.len() / MAX_ORDERS + 1) {
            order_count.set(order_count.get() + 1);
            let state = tokio.block_on(deliver(&db, &order_count.get().to_string(), order));
            prop_assert_eq!(state, expected(&history), "{:?}", order);
        }
        Ok(())
    });
    result.unwrap();
    eprintln!("{} orders", order_count.get());
}

/// RULE-EVT-038, RULE-EVT-025: a message about an unknown entity is deferred and applied when the
/// entity becomes known.
#[tokio::test]
async fn deferred_message_is_applied_by_a_concurrent_creation() {
    let db = database().await;
    let message = |topic: &str, version| {
        let position = KafkaPosition { partition: 0, offset: 0, published_at: None };
        let payload = serde_json::to_vec(&Payload { version, agent: Some(String::new()) }).unwrap();
        Message::new(topic.to_owned(), position, "raced".to_owned(), Map::new(), Some(payload))
    };
    for round in 0..50 {
        let clear = "truncate deal, deferred_message";
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
