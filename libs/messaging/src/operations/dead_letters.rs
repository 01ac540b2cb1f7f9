//! Dead letters, for operators: list them, hand them to their consumer again, drop them.
//!
//! The messages of a key stay in order: while one of them is here, all later ones come here too, and
//! replaying takes them oldest first.

use db::Tx;
use diesel::OptionalExtension;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;

use crate::subscription::Subscription;
use crate::contract::message::{Place, storable};
use crate::schema::dead_letter;
use crate::consumer::inbox;
use crate::{Bus, Failure, Message};

/// What can be done with messages that a consumer could not take.
#[derive(Debug, clap::Subcommand)]
pub enum DeadLetters {
    /// Print them as JSON lines, oldest first
    List {
        #[command(flatten)]
        filter: Filter,
        /// With their payloads, which may hold personal data
        #[arg(long)]
        payload: bool,
    },
    /// Hand them to their consumer again, in order; a key stops at the first one that fails
    Replay {
        #[command(flatten)]
        filter: Filter,
    },
    /// Drop them for good
    Discard {
        /// As `list` shows them
        #[arg(required = true)]
        ids: Vec<i64>,
    },
}

/// Which ones; all of them without a filter.
#[derive(Debug, clap::Args)]
pub struct Filter {
    /// A consumer group
    #[arg(long)]
    consumer: Option<String>,
    #[arg(long)]
    topic: Option<String>,
    #[arg(long)]
    key: Option<String>,
}

#[derive(Queryable, Selectable, Serialize)]
#[diesel(table_name = dead_letter)]
struct DeadLetter {
    id: i64,
    consumer: String,
    topic: String,
    partition: i32,
    offset: i64,
    key: String,
    error: String,
    #[serde(with = "time::serde::rfc3339")]
    dead_at: OffsetDateTime,
    headers: Value,
    #[serde(skip)]
    published_at: Option<OffsetDateTime>,
    #[serde(skip)]
    payload: Option<Vec<u8>>,
}

/// Messages of one key, for one consumer.
#[derive(Queryable)]
struct Key {
    consumer: String,
    topic: String,
    key: String,
}

impl Key {
    #[diesel::dsl::auto_type(no_type_alias)]
    fn letters<'a>(&'a self) -> _ {
        let consumer: &'a str = &self.consumer;
        let topic: &'a str = &self.topic;
        let key: &'a str = &self.key;
        dead_letter::table
            .filter(dead_letter::consumer.eq(consumer))
            .filter(dead_letter::topic.eq(topic))
            .filter(dead_letter::key.eq(key))
    }
}

impl DeadLetters {
    pub(crate) async fn execute(self, bus: &Bus) -> anyhow::Result<()> {
        match self {
            Self::List { filter, payload } => list(bus, filter, payload).await,
            Self::Replay { filter } => replay(bus, filter).await,
            Self::Discard { ids } => discard(bus, &ids).await,
        }
    }
}

impl Filter {
    fn query(self) -> dead_letter::BoxedQuery<'static, diesel::pg::Pg> {
        let mut query = dead_letter::table.into_boxed();
        if let Some(consumer) = self.consumer {
            query = query.filter(dead_letter::consumer.eq(consumer));
        }
        if let Some(topic) = self.topic {
            query = query.filter(dead_letter::topic.eq(topic));
        }
        if let Some(key) = self.key {
            query = query.filter(dead_letter::key.eq(key));
        }
        query
    }
}

async fn list(bus: &Bus, filter: Filter, payload: bool) -> anyhow::Result<()> {
    let mut conn = bus.db.conn().await?;
    let query = filter.query().order(dead_letter::id).select(DeadLetter::as_select());
    for letter in query.load::<DeadLetter>(&mut conn).await? {
        let mut line = serde_json::to_value(&letter)?;
        if payload {
            line["payload"] = letter.payload.as_deref().map(String::from_utf8_lossy).into();
        }
        println!("{line}");
    }
    Ok(())
}

async fn replay(bus: &Bus, filter: Filter) -> anyhow::Result<()> {
    let keys = filter
        .query()
        .select((dead_letter::consumer, dead_letter::topic, dead_letter::key))
        .distinct()
        .load::<Key>(&mut bus.db.conn().await?)
        .await?;
    let mut failures = 0;
    for key in keys {
        let Some(subscription) = bus.subscription(&key.consumer) else {
            println!("{}: {} consumes nothing as this group", key.consumer, bus.service);
            failures += 1;
            continue;
        };
        loop {
            match replay_oldest(bus, subscription, &key).await? {
                Replayed::Applied(id) => println!("{id}: applied"),
                Replayed::Refused(id, reason) => {
                    println!("{id}: {reason}");
                    failures += 1;
                    break;
                }
                Replayed::NoneLeft => break,
            }
        }
    }
    anyhow::ensure!(failures == 0, "{failures} keys could not be replayed to their end");
    Ok(())
}

enum Replayed {
    Applied(i64),
    Refused(i64, String),
    NoneLeft,
}

/// Applies the oldest dead letter of a key, or opens the key again if there is none.
async fn replay_oldest(bus: &Bus, subscription: &Subscription, key: &Key) -> anyhow::Result<Replayed> {
    let mut id = 0;
    let applied = bus
        .db
        .tx(async |tx| {
            // Locks the key: what arrives meanwhile waits, and goes behind the ones that are here.
            inbox::set_blocked(tx, &key.consumer, &key.topic, &key.key, true).await?;
            let Some(letter) = key
                .letters()
                .order(dead_letter::id)
                .select(DeadLetter::as_select())
                .for_update()
                .first(tx.conn())
                .await
                .optional()
                .map_err(db::Error::from)?
            else {
                inbox::set_blocked(tx, &key.consumer, &key.topic, &key.key, false).await?;
                return Ok(false);
            };
            id = letter.id;
            subscription.handle(tx, &letter.into_message()).await?;
            diesel::delete(dead_letter::table.find(id)).execute(tx.conn()).await.map_err(db::Error::from)?;
            Ok(true)
        })
        .await;
    match applied {
        Ok(true) => Ok(Replayed::Applied(id)),
        Ok(false) => Ok(Replayed::NoneLeft),
        Err(Failure::Rejected(reason) | Failure::Refused(reason)) => {
            let reason = storable(reason.as_bytes());
            diesel::update(dead_letter::table.find(id))
                .set(dead_letter::error.eq(&reason))
                .execute(&mut bus.db.conn().await?)
                .await?;
            Ok(Replayed::Refused(id, reason))
        }
        Err(failure @ Failure::Transient(_)) => Err(failure.into()),
    }
}

async fn discard(bus: &Bus, ids: &[i64]) -> anyhow::Result<()> {
    let discarded = bus
        .db
        .tx(async |tx| {
            let keys = diesel::delete(dead_letter::table.filter(dead_letter::id.eq_any(ids)))
                .returning((dead_letter::consumer, dead_letter::topic, dead_letter::key))
                .load::<Key>(tx.conn())
                .await?;
            for key in &keys {
                open_if_clear(tx, key).await?;
            }
            Ok::<_, db::Error>(keys.len())
        })
        .await?;
    println!("{discarded} discarded");
    anyhow::ensure!(discarded == ids.len(), "{} of these ids are no dead letters", ids.len() - discarded);
    Ok(())
}

/// Lets the later messages of a key through again, unless some are still aside.
async fn open_if_clear(tx: &mut Tx, key: &Key) -> Result<(), db::Error> {
    // First, since it locks the key: nothing goes aside while this looks.
    inbox::set_blocked(tx, &key.consumer, &key.topic, &key.key, true).await?;
    let left = diesel::dsl::exists(key.letters());
    let left: bool = diesel::select(left).get_result(tx.conn()).await?;
    inbox::set_blocked(tx, &key.consumer, &key.topic, &key.key, left).await
}

impl DeadLetter {
    fn into_message(self) -> Message {
        let headers = match self.headers {
            Value::Object(headers) => headers,
            _ => serde_json::Map::new(),
        };
        let Self { topic, partition, offset, published_at, key, payload, .. } = self;
        Message::new(topic, Place { partition, offset, published_at }, key, headers, payload)
    }
}
