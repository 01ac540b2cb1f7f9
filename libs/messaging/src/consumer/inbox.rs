//! The record of applied messages, written in the transaction that applies them.

use db::{Prepared, Tx};
use diesel::OptionalExtension;
use diesel::prelude::*;
use diesel::query_dsl::methods::FilterDsl;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;

use crate::contract::message::Message;
use crate::schema::{inbox, inbox_event};

/// The state of a message in the inbox.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Receipt {
    /// The message was not seen before and is to be applied.
    New,
    /// The message was applied earlier and is to be dropped.
    Duplicate,
    /// An earlier message of its key is a dead letter. The message becomes a dead letter, too.
    Blocked,
}

/// Locks the key and records the message.
///
/// The lock is held until `tx` ends. Only one replica at a time therefore applies messages of a
/// key, even while a partition moves from one replica to another.
pub(crate) async fn receive(tx: &mut Tx, consumer: &str, message: &Message) -> Result<Receipt, db::Error> {
    let blocked = match message.sequence {
        Some(sequence) => advance(tx, consumer, message, sequence).await?,
        None if record_event(tx, consumer, message).await? => Some(lock(tx, consumer, message).await?),
        None => None,
    };
    Ok(match blocked {
        None => Receipt::Duplicate,
        Some(true) => Receipt::Blocked,
        Some(false) => Receipt::New,
    })
}

/// Advances the key to `sequence` and returns `inbox.blocked`, or `None` if the key has already
/// reached `sequence`.
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
    Ok(Prepared(advance).get_result(tx.conn()).await.optional()?)
}

/// Records an event without a sequence by its id. Returns false if it was recorded before.
async fn record_event(tx: &mut Tx, consumer: &str, message: &Message) -> Result<bool, db::Error> {
    let new = diesel::insert_into(inbox_event::table)
        .values((inbox_event::consumer.eq(consumer), inbox_event::event_id.eq(&message.id)))
        .on_conflict_do_nothing()
        .execute(tx.conn())
        .await?;
    Ok(new == 1)
}

/// Locks the key of an event without a sequence and returns `inbox.blocked`.
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
    Ok(Prepared(lock).get_result(tx.conn()).await?)
}

/// Locks a key and blocks or unblocks it. Later messages of a blocked key become dead letters.
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
