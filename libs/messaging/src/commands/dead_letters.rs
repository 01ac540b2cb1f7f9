//! The commands for dead letters.
//!
//! The messages of a key keep their order. Later messages of a key with a dead letter become dead
//! letters as well, and a replay applies the oldest one first. A dead letter that a later state has
//! superseded is only listed.

use diesel::OptionalExtension;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;

use crate::bus::Bus;
use crate::consumer::inbox;
use crate::contract::message::{KafkaPosition, Message, storable};
use crate::failure::Failure;
use crate::schema::dead_letter;
use crate::subscription::Subscription;

#[derive(Debug, clap::Subcommand)]
pub enum DeadLetterCommand {
    /// Print dead letters as JSON lines, oldest first
    List {
        #[command(flatten)]
        filter: Filter,
        /// Include payloads, which may contain personal data
        #[arg(long)]
        payload: bool,
    },
    /// Apply dead letters again, in order. A key stops at the first message that fails
    Replay {
        #[command(flatten)]
        filter: Filter,
    },
    /// Delete dead letters for ever
    Discard {
        /// Ids that `list` prints
        #[arg(required = true)]
        ids: Vec<i64>,
    },
}

/// A filter of dead letters. Without an argument it selects all of them.
#[derive(Debug, clap::Args)]
pub struct Filter {
    /// Only dead letters of this consumer group
    #[arg(long)]
    consumer: Option<String>,
    /// Only dead letters of this topic
    #[arg(long)]
    topic: Option<String>,
    /// Only dead letters of this key
    #[arg(long)]
    key: Option<String>,
}

/// The number of dead letters that `list` loads at once, since the command runs within the memory
/// of a worker.
const LIST_PAGE: i64 = 500;
/// Replaces [`LIST_PAGE`] if `list` includes payloads, which may have a megabyte each.
const LIST_PAGE_WITH_PAYLOADS: i64 = 20;

/// A dead letter as `list` prints it.
#[derive(Queryable, Selectable, Serialize)]
#[diesel(table_name = dead_letter)]
struct ListedLetter {
    id: i64,
    consumer: String,
    topic: String,
    partition: i32,
    offset: i64,
    key: String,
    error: String,
    #[serde(with = "time::serde::rfc3339")]
    dead_at: OffsetDateTime,
    /// The offset of the message that superseded this one.
    superseded_by: Option<i64>,
    headers: Value,
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = dead_letter)]
struct DeadLetter {
    id: i64,
    topic: String,
    partition: i32,
    offset: i64,
    key: String,
    headers: Value,
    published_at: Option<OffsetDateTime>,
    payload: Option<Vec<u8>>,
}

/// A key of a topic, for one consumer.
#[derive(Queryable)]
struct Key {
    consumer: String,
    topic: String,
    key: String,
}

impl Key {
    #[diesel::dsl::auto_type(no_type_alias)]
    fn dead_letters<'a>(&'a self) -> _ {
        let consumer: &'a str = &self.consumer;
        let topic: &'a str = &self.topic;
        let key: &'a str = &self.key;
        dead_letter::table
            .filter(dead_letter::consumer.eq(consumer))
            .filter(dead_letter::topic.eq(topic))
            .filter(dead_letter::key.eq(key))
            .filter(dead_letter::superseded_by.is_null())
    }
}

impl DeadLetterCommand {
    pub(super) async fn execute(self, bus: &Bus) -> anyhow::Result<()> {
        match self {
            Self::List { filter, payload } => list(bus, &filter, payload).await,
            Self::Replay { filter } => replay(bus, &filter).await,
            Self::Discard { ids } => discard(bus, &ids).await,
        }
    }
}

impl Filter {
    fn query(&self) -> dead_letter::BoxedQuery<'static, diesel::pg::Pg> {
        let mut query = dead_letter::table.into_boxed();
        if let Some(consumer) = self.consumer.clone() {
            query = query.filter(dead_letter::consumer.eq(consumer));
        }
        if let Some(topic) = self.topic.clone() {
            query = query.filter(dead_letter::topic.eq(topic));
        }
        if let Some(key) = self.key.clone() {
            query = query.filter(dead_letter::key.eq(key));
        }
        query
    }
}

/// Prints dead letters page by page.
async fn list(bus: &Bus, filter: &Filter, has_payloads: bool) -> anyhow::Result<()> {
    let mut conn = bus.db.conn().await?;
    let mut after = 0;
    loop {
        let page = filter.query().filter(dead_letter::id.gt(after)).order(dead_letter::id);
        let letters: Vec<(ListedLetter, Option<Vec<u8>>)> = if has_payloads {
            let columns = (ListedLetter::as_select(), dead_letter::payload);
            page.limit(LIST_PAGE_WITH_PAYLOADS).select(columns).load(&mut conn).await?
        } else {
            let letters = page.limit(LIST_PAGE).select(ListedLetter::as_select());
            let letters = letters.load::<ListedLetter>(&mut conn).await?;
            letters.into_iter().map(|letter| (letter, None)).collect()
        };
        let Some((last, _)) = letters.last() else { return Ok(()) };
        after = last.id;
        for (letter, payload) in letters {
            let mut line = serde_json::to_value(&letter)?;
            if has_payloads {
                line["payload"] = payload.as_deref().map(String::from_utf8_lossy).into();
            }
            println!("{line}");
        }
    }
}

async fn replay(bus: &Bus, filter: &Filter) -> anyhow::Result<()> {
    let keys = filter
        .query()
        .filter(dead_letter::superseded_by.is_null())
        .select((dead_letter::consumer, dead_letter::topic, dead_letter::key))
        .distinct()
        .load::<Key>(&mut bus.db.conn().await?)
        .await?;
    let mut failures = 0;
    for key in keys {
        let Some(subscription) = bus.subscription(&key.consumer) else {
            println!("{}: {} has no such consumer group", key.consumer, bus.service);
            failures += 1;
            continue;
        };
        loop {
            match replay_oldest(bus, subscription, &key).await? {
                Replayed::Applied(id) => println!("{id}: applied"),
                Replayed::Failed(id, reason) => {
                    println!("{id}: {reason}");
                    failures += 1;
                    break;
                }
                Replayed::NoneLeft => break,
            }
        }
    }
    anyhow::ensure!(failures == 0, "failed to replay {failures} keys completely");
    Ok(())
}

/// The result of one step of a replay, with the id of the dead letter.
enum Replayed {
    Applied(i64),
    Failed(i64, String),
    NoneLeft,
}

/// Applies the oldest dead letter of a key, or unblocks the key if there is none.
async fn replay_oldest(bus: &Bus, subscription: &Subscription, key: &Key) -> anyhow::Result<Replayed> {
    let mut id = 0;
    let applied = bus
        .db
        .tx(async |tx| {
            // Locks the key. A message that arrives now waits, and becomes the last dead letter
            // unless the key is unblocked below.
            inbox::set_blocked(tx, &key.consumer, &key.topic, &key.key, true).await?;
            let Some(letter) = key
                .dead_letters()
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
        Err(Failure::Rejected(reason) | Failure::Query(reason) | Failure::Slow(reason)) => {
            let reason = storable(reason.as_bytes());
            diesel::update(dead_letter::table.find(id))
                .set(dead_letter::error.eq(&reason))
                .execute(&mut bus.db.conn().await?)
                .await?;
            Ok(Replayed::Failed(id, reason))
        }
        Err(failure @ Failure::Transient(_)) => Err(failure.into()),
    }
}

async fn discard(bus: &Bus, ids: &[i64]) -> anyhow::Result<()> {
    let discarded = bus
        .db
        .tx(async |tx| {
            let letters = || dead_letter::table.filter(dead_letter::id.eq_any(ids));
            let columns = (dead_letter::consumer, dead_letter::topic, dead_letter::key);
            let keys = letters().select(columns).distinct().order(columns).load::<Key>(tx.conn()).await?;
            // A consumer locks keys in this order, too, and each key before its dead letters.
            for key in &keys {
                inbox::set_blocked(tx, &key.consumer, &key.topic, &key.key, true).await?;
            }
            let discarded = diesel::delete(letters()).execute(tx.conn()).await?;
            for key in &keys {
                let exists = diesel::dsl::exists(key.dead_letters());
                let is_blocked: bool = diesel::select(exists).get_result(tx.conn()).await?;
                inbox::set_blocked(tx, &key.consumer, &key.topic, &key.key, is_blocked).await?;
            }
            Ok::<_, db::Error>(discarded)
        })
        .await?;
    println!("{discarded} discarded");
    anyhow::ensure!(discarded == ids.len(), "{} of these ids are not dead letters", ids.len() - discarded);
    Ok(())
}

impl DeadLetter {
    fn into_message(self) -> Message {
        let headers = match self.headers {
            Value::Object(headers) => headers,
            _ => serde_json::Map::new(),
        };
        let Self { topic, partition, offset, published_at, key, payload, .. } = self;
        Message::new(topic, KafkaPosition { partition, offset, published_at }, key, headers, payload)
    }
}
