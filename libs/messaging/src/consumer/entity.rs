//! The order of messages about one entity that arrive over several topics.

use db::{Prepared, Tx};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text, Timestamptz};
use diesel_async::RunQueryDsl;
use serde_json::Value;
use time::OffsetDateTime;

use crate::contract::message::{KafkaPosition, Message};
use crate::schema::deferred_message;

#[cfg(test)]
mod tests;

/// The lock of one entity of a consumer, and the messages that wait for the entity.
///
/// The lock is held until the transaction ends. It serializes messages about the entity, including
/// messages of different topics. Acquire the lock before you read the stored state of the entity,
/// and keep the applied version in the entity's row.
pub struct EntityLock {
    consumer: &'static str,
    entity: String,
}

impl EntityLock {
    /// Locks `entity`, usually an id, for the consumer group `consumer`.
    pub async fn acquire(
        tx: &mut Tx,
        consumer: &'static str,
        entity: impl ToString,
    ) -> Result<Self, db::Error> {
        let lock = Self { consumer, entity: entity.to_string() };
        let acquire = diesel::sql_query("select pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 0))")
            .bind::<Text, _>(lock.consumer)
            .bind::<Text, _>(&lock.entity);
        Prepared(acquire).execute(tx.conn()).await?;
        Ok(lock)
    }

    /// Stores a message until the entity exists.
    pub async fn defer(&self, tx: &mut Tx, message: &Message, version: i64) -> Result<(), db::Error> {
        let Message { topic, key, position, headers, payload, .. } = message;
        let insert = diesel::insert_into(deferred_message::table).values((
            deferred_message::consumer.eq(self.consumer),
            deferred_message::entity.eq(&self.entity),
            deferred_message::version.eq(version),
            deferred_message::topic.eq(topic),
            deferred_message::partition.eq(position.partition),
            deferred_message::offset.eq(position.offset),
            deferred_message::published_at.eq(position.published_at),
            deferred_message::key.eq(key),
            deferred_message::headers.eq(Value::Object(headers.clone())),
            deferred_message::payload.eq(payload),
        ));
        Prepared(insert).execute(tx.conn()).await?;
        Ok(())
    }

    /// Removes and returns the deferred messages of the entity, ordered by version and then by
    /// arrival. The caller applies them once the entity exists.
    pub async fn drain_deferred(&self, tx: &mut Tx) -> Result<Vec<Message>, db::Error> {
        let of_entity = deferred_message::table
            .filter(deferred_message::consumer.eq(self.consumer))
            .filter(deferred_message::entity.eq(&self.entity));
        let mut deferred: Vec<DeferredMessage> =
            diesel::delete(of_entity).returning(DeferredMessage::as_returning()).load(tx.conn()).await?;
        deferred.sort_by_key(|message| (message.version, message.id));
        Ok(deferred.into_iter().map(DeferredMessage::into_message).collect())
    }

    /// Deletes up to `limit` messages that `consumer` deferred before `before`. Returns their
    /// number.
    pub async fn delete_deferred_before(
        tx: &mut Tx,
        consumer: &str,
        before: OffsetDateTime,
        limit: u32,
    ) -> Result<usize, db::Error> {
        let delete = diesel::sql_query(
            "delete from deferred_message where id in (\
                 select id from deferred_message where consumer = $1 and deferred_at < $2 \
                 order by deferred_at limit $3)",
        )
        .bind::<Text, _>(consumer)
        .bind::<Timestamptz, _>(before)
        .bind::<BigInt, _>(i64::from(limit));
        Ok(Prepared(delete).execute(tx.conn()).await?)
    }
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = deferred_message)]
struct DeferredMessage {
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

impl DeferredMessage {
    fn into_message(self) -> Message {
        let Self { topic, partition, offset, published_at, key, headers, payload, .. } = self;
        let headers = headers.as_object().cloned().unwrap_or_default();
        Message::new(topic, KafkaPosition { partition, offset, published_at }, key, headers, payload)
    }
}
