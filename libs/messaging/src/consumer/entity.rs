//! What several topics tell of one thing, in whatever order they come.

use db::{Cached, Tx};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, SmallInt, Text, Timestamptz};
use diesel_async::RunQueryDsl;
use serde_json::Value;
use time::OffsetDateTime;

use crate::Message;
use crate::contract::message::Place;
use crate::schema::thing_waiting;

#[cfg(test)]
mod tests;

/// A thing that a consumer is told of, locked until its transaction ends: of messages about one thing, also of
/// different topics, one is handled at a time. Lock it before looking at what the service knows of it.
pub struct Thing {
    consumer: &'static str,
    name: String,
}

impl Thing {
    /// Locks what `consumer`, a group, calls `name`: the thing's id, most often.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn lock(tx: &mut Tx, consumer: &'static str, name: impl ToString) -> Result<Self, db::Error> {
        let thing = Self { consumer, name: name.to_string() };
        let lock = diesel::sql_query("select pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 0))")
            .bind::<Text, _>(thing.consumer)
            .bind::<Text, _>(&thing.name);
        Cached(lock).execute(tx.conn()).await?;
        Ok(thing)
    }

    /// Whether what tells of `fact` under this version is above all that has told of it before; then it is what
    /// the next has to be above. Of equal versions the higher `rank` is: that of the event which ends more.
    ///
    /// Name each fact that some events have and others lack (a deal's status, its agent), so that events of one
    /// change, which carry one version, do not shut each other out.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn supersedes(
        &self,
        tx: &mut Tx,
        fact: &str,
        version: i64,
        rank: i16,
    ) -> Result<bool, db::Error> {
        let advance = diesel::sql_query(
            "insert into thing_fact (consumer, thing, fact, version, rank) values ($1, $2, $3, $4, $5) \
             on conflict (consumer, thing, fact) do update set version = excluded.version, rank = excluded.rank \
             where (thing_fact.version, thing_fact.rank) < (excluded.version, excluded.rank)",
        )
        .bind::<Text, _>(self.consumer)
        .bind::<Text, _>(&self.name)
        .bind::<Text, _>(fact)
        .bind::<BigInt, _>(version)
        .bind::<SmallInt, _>(rank);
        Ok(Cached(advance).execute(tx.conn()).await? == 1)
    }

    /// Keeps a message until the thing is known.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn keep(&self, tx: &mut Tx, message: &Message, version: i64) -> Result<(), db::Error> {
        let Message { topic, key, at, headers, payload, .. } = message;
        let kept = diesel::insert_into(thing_waiting::table).values((
            thing_waiting::consumer.eq(self.consumer),
            thing_waiting::thing.eq(&self.name),
            thing_waiting::version.eq(version),
            thing_waiting::topic.eq(topic),
            thing_waiting::partition.eq(at.partition),
            thing_waiting::offset.eq(at.offset),
            thing_waiting::published_at.eq(at.published_at),
            thing_waiting::key.eq(key),
            thing_waiting::headers.eq(Value::Object(headers.clone())),
            thing_waiting::payload.eq(payload),
        ));
        Cached(kept).execute(tx.conn()).await?;
        Ok(())
    }

    /// Takes what was kept, by version, and of equal ones as it came: to be applied now that the thing is known.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn take(&self, tx: &mut Tx) -> Result<Vec<Message>, db::Error> {
        let of_this = thing_waiting::table
            .filter(thing_waiting::consumer.eq(self.consumer))
            .filter(thing_waiting::thing.eq(&self.name));
        let mut kept: Vec<Kept> =
            diesel::delete(of_this).returning(Kept::as_returning()).load(tx.conn()).await?;
        kept.sort_by_key(|kept| (kept.version, kept.id));
        Ok(kept.into_iter().map(Kept::into_message).collect())
    }

    /// Forgets what `consumer` has kept since before `since`, so many at most; how many those were.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn forget(
        tx: &mut Tx,
        consumer: &str,
        since: OffsetDateTime,
        limit: u32,
    ) -> Result<usize, db::Error> {
        let forget = diesel::sql_query(
            "delete from thing_waiting where id in (\
                 select id from thing_waiting where consumer = $1 and kept_at < $2 order by kept_at limit $3)",
        )
        .bind::<Text, _>(consumer)
        .bind::<Timestamptz, _>(since)
        .bind::<BigInt, _>(i64::from(limit));
        Ok(Cached(forget).execute(tx.conn()).await?)
    }
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = thing_waiting)]
struct Kept {
    id: i64,
    version: i64,
    topic: String,
    partition: i32,
    offset: i64,
    published_at: Option<OffsetDateTime>,
    key: String,
    headers: Value,
    payload: Option<Vec<u8>>,
}

impl Kept {
    fn into_message(self) -> Message {
        let Self { topic, partition, offset, published_at, key, headers, payload, .. } = self;
        let headers = headers.as_object().cloned().unwrap_or_default();
        Message::new(topic, Place { partition, offset, published_at }, key, headers, payload)
    }
}
