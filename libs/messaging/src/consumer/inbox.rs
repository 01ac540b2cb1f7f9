//! The record of applied messages, written in the transaction that applies them.

use db::{Prepared, Tx};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, Text, Timestamptz};
use diesel_async::RunQueryDsl;

use crate::contract::message::Message;
use crate::schema::inbox;

#[cfg(test)]
mod tests;

/// The state of a message in the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receipt {
    /// The message was not seen before and is to be applied.
    New {
        /// True if an earlier message of its key is a dead letter.
        is_blocked: bool,
        /// True if the sequence of the message is not above the last sequence of its key, although
        /// the time of the message is later. The ids of the publisher have then gone back.
        went_back: bool,
    },
    /// The message was applied earlier and is to be dropped.
    Duplicate,
    /// The database has another history, in which receipts of earlier messages may be missing. The
    /// message must not be applied before them.
    HistoryChanged,
}

#[derive(QueryableByName)]
struct Received {
    /// The position of the message among the received ones, from 1.
    #[diesel(sql_type = BigInt)]
    place: i64,
    #[diesel(sql_type = Bool)]
    is_blocked: bool,
    #[diesel(sql_type = Bool)]
    has_gone_back: bool,
    #[diesel(sql_type = Bool)]
    is_history_known: bool,
}

/// Locks the keys of messages of one partition, records the messages and returns a receipt for
/// each. After [`Receipt::HistoryChanged`], `tx` must be rolled back.
///
/// The locks are held until `tx` ends. Only one replica at a time therefore applies messages of a
/// key, even while a partition moves from one replica to another.
pub(crate) async fn receive(
    tx: &mut Tx,
    consumer: &str,
    messages: &[Message],
    history: &str,
) -> Result<Vec<Receipt>, db::Error> {
    let mut receipts = vec![Receipt::Duplicate; messages.len()];
    let Some(first) = messages.first() else { return Ok(receipts) };
    let keys: Vec<_> = messages.iter().map(|message| &message.key).collect();
    let sequences: Vec<_> = messages.iter().map(|message| message.sequence).collect();
    let times: Vec<_> = messages.iter().map(|message| message.event_time).collect();
    let ids: Vec<_> = messages.iter().map(|message| &message.id).collect();
    let offsets: Vec<_> = messages.iter().map(|message| message.position.offset).collect();
    let received = diesel::sql_query("select * from inbox_receive($1, $2, $3, $4, $5, $6, $7, $8, $9)")
        .bind::<Text, _>(consumer)
        .bind::<Text, _>(&first.topic)
        .bind::<Integer, _>(first.position.partition)
        .bind::<Text, _>(history)
        .bind::<Array<Text>, _>(keys)
        .bind::<Array<Nullable<BigInt>>, _>(sequences)
        .bind::<Array<Nullable<Timestamptz>>, _>(times)
        .bind::<Array<Text>, _>(ids)
        .bind::<Array<BigInt>, _>(offsets);
    // Messages without a row are duplicates. An existing receipt is valid in any history.
    for row in Prepared(received).load::<Received>(tx.conn()).await? {
        let Received { place, is_blocked, has_gone_back: went_back, is_history_known } = row;
        let receipt = usize::try_from(place - 1).ok().and_then(|place| receipts.get_mut(place));
        let Some(receipt) = receipt else { continue };
        *receipt =
            if is_history_known { Receipt::New { is_blocked, went_back } } else { Receipt::HistoryChanged };
    }
    Ok(receipts)
}

/// Locks a key and blocks or unblocks it. Later messages of a blocked key become dead letters,
/// unless they carry the whole state of the key.
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
