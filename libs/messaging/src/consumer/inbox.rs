//! Remembering what was applied, in the transaction that applied it.

use db::{Cached, Tx};
use diesel::OptionalExtension;
use diesel::prelude::*;
use diesel::query_dsl::methods::FilterDsl;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;

use crate::contract::message::storable;
use crate::schema::{dead_letter, inbox, inbox_event};
use crate::{Message, outbox, topics};

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

/// Locks the key and records the message. The lock is held to the end of `tx`, so that one key is
/// worked on by one replica at a time, even while a partition changes hands.
pub(crate) async fn receive(tx: &mut Tx, consumer: &str, message: &Message) -> Result<Receipt, db::Error> {
    let blocked = match message.sequence {
        Some(sequence) => advance(tx, consumer, message, sequence).await?,
        None if remember(tx, consumer, message).await? => Some(lock(tx, consumer, message).await?),
        None => None,
    };
    Ok(match blocked {
        None => Receipt::Duplicate,
        Some(true) => Receipt::Blocked,
        Some(false) => Receipt::New,
    })
}

/// Moves the key on to `sequence`. `None`: it has come as far before; otherwise whether it is blocked.
async fn advance(
    tx: &mut Tx,
    consumer: &str,
    message: &Message,
    sequence: i64,
) -> Result<Option<bool>, db::Error> {
    let advance = diesel::insert_into(inbox::table)
        .values((
            inbox::consumer.eq(consumer),
            inbox::topic.eq(&message.topic),
            inbox::key.eq(&message.key),
            inbox::sequence.eq(sequence),
        ))
        .on_conflict((inbox::consumer, inbox::topic, inbox::key))
        .do_update()
        .set((inbox::sequence.eq(excluded(inbox::sequence)), inbox::seen_on.eq(excluded(inbox::seen_on))))
        .filter(inbox::sequence.lt(excluded(inbox::sequence)))
        .returning(inbox::blocked);
    Ok(Cached(advance).get_result(tx.conn()).await.optional()?)
}

/// Notes an event that has no sequence by its id. `false`: it was noted before.
async fn remember(tx: &mut Tx, consumer: &str, message: &Message) -> Result<bool, db::Error> {
    let new = diesel::insert_into(inbox_event::table)
        .values((inbox_event::consumer.eq(consumer), inbox_event::event_id.eq(&message.id)))
        .on_conflict_do_nothing()
        .execute(tx.conn())
        .await?;
    Ok(new == 1)
}

/// Locks a key whose events have no sequence. Answers whether it is blocked.
async fn lock(tx: &mut Tx, consumer: &str, message: &Message) -> Result<bool, db::Error> {
    if message.key.is_empty() {
        return Ok(false);
    }
    let lock = diesel::insert_into(inbox::table)
        .values((
            inbox::consumer.eq(consumer),
            inbox::topic.eq(&message.topic),
            inbox::key.eq(&message.key),
            inbox::sequence.eq(0),
        ))
        .on_conflict((inbox::consumer, inbox::topic, inbox::key))
        .do_update()
        .set(inbox::seen_on.eq(excluded(inbox::seen_on)))
        .returning(inbox::blocked);
    Ok(Cached(lock).get_result(tx.conn()).await?)
}

/// A reason that is longer is cut: it is also a header.
const LONGEST_REASON: usize = 4096;

/// Puts a message aside with the reason, has its key's later ones go behind it, and publishes a copy. No message
/// is such that this would fail: what is indexed is bounded, and no text has a NUL.
pub(crate) async fn bury(
    tx: &mut Tx,
    service: &str,
    consumer: &str,
    message: &Message,
    error: &str,
) -> Result<(), db::Error> {
    let mut error = storable(error.as_bytes());
    error.truncate(error.floor_char_boundary(LONGEST_REASON));
    diesel::insert_into(dead_letter::table)
        .values((
            dead_letter::consumer.eq(consumer),
            dead_letter::topic.eq(&message.topic),
            dead_letter::partition.eq(message.at.partition),
            dead_letter::offset.eq(message.at.offset),
            dead_letter::published_at.eq(message.at.published_at),
            dead_letter::key.eq(&message.key),
            dead_letter::headers.eq(serde_json::Value::Object(message.headers.clone())),
            dead_letter::payload.eq(&message.payload),
            dead_letter::error.eq(&error),
        ))
        .on_conflict_do_nothing()
        .execute(tx.conn())
        .await?;
    set_blocked(tx, consumer, &message.topic, &message.key, true).await?;
    outbox::append_dead(tx, consumer, message, &topics::dead_letters(&message.topic, service), &error).await
}

/// Whether the later messages of a key go aside unseen. Locks the key.
pub(crate) async fn set_blocked(
    tx: &mut Tx,
    consumer: &str,
    topic: &str,
    key: &str,
    blocked: bool,
) -> Result<(), db::Error> {
    diesel::update(inbox::table.find((consumer, topic, key)))
        .set(inbox::blocked.eq(blocked))
        .execute(tx.conn())
        .await?;
    Ok(())
}
