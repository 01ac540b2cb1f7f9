//! The record of applied messages, written in the transaction that applies them.

use db::{Prepared, Tx};
use diesel::OptionalExtension;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text, Timestamptz};
use diesel_async::RunQueryDsl;

use crate::contract::message::Message;
use crate::schema::inbox;

#[cfg(test)]
mod tests;

/// The state of a message in the inbox.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Receipt {
    /// The message was not seen before and is to be applied.
    New {
        /// True if the sequence of the message is not above the last one of its key. Its time is
        /// later, so the publisher has given a number twice.
        went_back: bool,
    },
    /// The message was applied earlier and is to be dropped.
    Duplicate,
    /// An earlier message of its key is a dead letter. The message becomes a dead letter, too.
    Blocked,
    /// The database has another history, in which receipts of earlier messages may be missing. The
    /// message must not be applied before them.
    HistoryChanged,
}

/// Locks the key and records the message. After [`Receipt::HistoryChanged`], `tx` must be rolled
/// back.
///
/// The lock is held until `tx` ends. Only one replica at a time therefore applies messages of a
/// key, even while a partition moves from one replica to another.
pub(crate) async fn receive(
    tx: &mut Tx,
    consumer: &str,
    message: &Message,
    history: &str,
) -> Result<Receipt, db::Error> {
    let Some(sequence) = message.sequence else {
        return receive_unsequenced(tx, consumer, message, history).await;
    };
    Ok(match advance(tx, consumer, message, history, sequence).await? {
        // A receipt that is still there is right in any history.
        None => Receipt::Duplicate,
        Some(Advance { is_history_known: false, .. }) => Receipt::HistoryChanged,
        Some(Advance { blocked: true, .. }) => Receipt::Blocked,
        Some(Advance { went_back, .. }) => Receipt::New { went_back },
    })
}

#[derive(QueryableByName)]
struct Advance {
    #[diesel(sql_type = Bool)]
    blocked: bool,
    #[diesel(sql_type = Bool)]
    went_back: bool,
    #[diesel(sql_type = Bool)]
    is_history_known: bool,
}

/// Advances the key to the message, or returns `None` if the key has already reached it.
///
/// On one database, the order of times is the order of sequences, since a publisher takes both
/// under the lock of the aggregate's row. A later time under a sequence that is not higher is
/// therefore an event that was not seen. The latest time is kept, because a clock may step back. A
/// producer that sends an event again with its id and a new time repeats it.
async fn advance(
    tx: &mut Tx,
    consumer: &str,
    message: &Message,
    history: &str,
    sequence: i64,
) -> Result<Option<Advance>, db::Error> {
    let advance = diesel::sql_query(
        "insert into inbox (consumer, topic, key, sequence, event_time, event_hash, partition, \"offset\") \
         values ($1, $2, $3, $4, $5, hashtextextended($6, 0), $7, $8) \
         on conflict (consumer, topic, key) do update set \
           sequence = excluded.sequence, event_time = greatest(inbox.event_time, excluded.event_time), \
           event_hash = excluded.event_hash, partition = excluded.partition, \"offset\" = excluded.\"offset\", \
           went_back = excluded.sequence <= inbox.sequence, seen_on = excluded.seen_on \
         where inbox.sequence < excluded.sequence \
           or inbox.event_time < excluded.event_time and inbox.event_hash <> excluded.event_hash \
         returning blocked, went_back, database_history() = $9 as is_history_known",
    );
    let advance = advance
        .bind::<Text, _>(consumer)
        .bind::<Text, _>(&message.topic)
        .bind::<Text, _>(&message.key)
        .bind::<BigInt, _>(sequence)
        .bind::<Nullable<Timestamptz>, _>(message.event_time)
        .bind::<Text, _>(&message.id)
        .bind::<Integer, _>(message.position.partition)
        .bind::<BigInt, _>(message.position.offset)
        .bind::<Text, _>(history);
    Ok(Prepared(advance).get_result(tx.conn()).await.optional()?)
}

#[derive(QueryableByName)]
struct Record {
    #[diesel(sql_type = Bool)]
    is_history_known: bool,
}

/// Records an event without a sequence by its id, and locks its key.
async fn receive_unsequenced(
    tx: &mut Tx,
    consumer: &str,
    message: &Message,
    history: &str,
) -> Result<Receipt, db::Error> {
    let record = diesel::sql_query(
        "insert into inbox_event (consumer, event_id) values ($1, $2) on conflict do nothing \
         returning database_history() = $3 as is_history_known",
    );
    let record = record.bind::<Text, _>(consumer).bind::<Text, _>(&message.id).bind::<Text, _>(history);
    Ok(match Prepared(record).get_result(tx.conn()).await.optional()? {
        None => Receipt::Duplicate,
        Some(Record { is_history_known: false }) => Receipt::HistoryChanged,
        Some(_) if lock(tx, consumer, message).await? => Receipt::Blocked,
        Some(_) => Receipt::New { went_back: false },
    })
}

#[derive(QueryableByName)]
struct Lock {
    #[diesel(sql_type = Bool)]
    blocked: bool,
}

/// Locks the key of an event without a sequence and returns `inbox.blocked`.
async fn lock(tx: &mut Tx, consumer: &str, message: &Message) -> Result<bool, db::Error> {
    if message.key.is_empty() {
        return Ok(false);
    }
    let lock = diesel::sql_query(
        "insert into inbox (consumer, topic, key, sequence, partition, \"offset\") values ($1, $2, $3, 0, $4, $5) \
         on conflict (consumer, topic, key) do update set \
           partition = excluded.partition, \"offset\" = excluded.\"offset\", seen_on = excluded.seen_on \
         returning blocked",
    );
    let lock = lock
        .bind::<Text, _>(consumer)
        .bind::<Text, _>(&message.topic)
        .bind::<Text, _>(&message.key)
        .bind::<Integer, _>(message.position.partition)
        .bind::<BigInt, _>(message.position.offset);
    Ok(Prepared(lock).get_result::<Lock>(tx.conn()).await?.blocked)
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
