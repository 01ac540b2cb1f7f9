//! Remembering what was applied, in the transaction that applied it.

use db::Tx;
use diesel::OptionalExtension;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Text};
use diesel_async::RunQueryDsl;

use crate::envelope::Message;
use crate::schema::{dead_letter, inbox_event};

/// What the inbox says of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Receipt {
    /// Not seen before: apply it.
    New,
    /// Applied earlier: drop it.
    Duplicate,
    /// An earlier message of its key is dead: it goes behind that one.
    Blocked,
}

#[derive(QueryableByName)]
struct KeyState {
    #[diesel(sql_type = Bool)]
    blocked: bool,
}

/// Locks the key and records the message. The lock is held to the end of `tx`, so that one key is
/// worked on by one replica at a time, even while a partition changes hands.
pub(crate) async fn receive(tx: &mut Tx, consumer: &str, message: &Message) -> Result<Receipt, db::Error> {
    if message.sequence.is_none()
        && let Some(id) = message.id
    {
        let new = diesel::insert_into(inbox_event::table)
            .values((inbox_event::consumer.eq(consumer), inbox_event::event_id.eq(id)))
            .on_conflict_do_nothing()
            .execute(tx.conn())
            .await?;
        if new == 0 {
            return Ok(Receipt::Duplicate);
        }
    }
    // Without a sequence the row still serves as the key's lock and carries its block.
    let state = diesel::sql_query(
        "insert into inbox as seen (consumer, topic, key, sequence) values ($1, $2, $3, coalesce($4, 0)) \
         on conflict (consumer, topic, key) do update set sequence = greatest(seen.sequence, excluded.sequence) \
         where $4 is null or seen.sequence < excluded.sequence \
         returning blocked",
    )
    .bind::<Text, _>(consumer)
    .bind::<Text, _>(&message.topic)
    .bind::<Text, _>(&message.key)
    .bind::<diesel::sql_types::Nullable<BigInt>, _>(message.sequence)
    .get_result::<KeyState>(tx.conn())
    .await
    .optional()?;
    Ok(match state {
        None => Receipt::Duplicate,
        Some(KeyState { blocked: true }) => Receipt::Blocked,
        Some(KeyState { blocked: false }) => Receipt::New,
    })
}

/// Puts a message aside with the reason, and its key's later ones behind it.
pub(crate) async fn bury(
    tx: &mut Tx,
    consumer: &str,
    message: &Message,
    error: &str,
) -> Result<(), db::Error> {
    diesel::insert_into(dead_letter::table)
        .values((
            dead_letter::consumer.eq(consumer),
            dead_letter::topic.eq(&message.topic),
            dead_letter::partition.eq(message.partition),
            dead_letter::offset.eq(message.offset),
            dead_letter::key.eq(&message.key),
            dead_letter::headers.eq(serde_json::Value::Object(message.headers.clone())),
            dead_letter::payload.eq(&message.payload),
            dead_letter::error.eq(error),
        ))
        .on_conflict_do_nothing()
        .execute(tx.conn())
        .await?;
    diesel::sql_query("update inbox set blocked = true where consumer = $1 and topic = $2 and key = $3")
        .bind::<Text, _>(consumer)
        .bind::<Text, _>(&message.topic)
        .bind::<Text, _>(&message.key)
        .execute(tx.conn())
        .await?;
    Ok(())
}
