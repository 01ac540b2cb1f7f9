//! Dead-lettering, which stores a message with its reason and blocks its key until the dead letter
//! is replayed, discarded or superseded.

use db::Tx;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::Deserialize;

use super::inbox;
use crate::contract::message::{Message, storable};
use crate::contract::topics::dead_letter_topic;
use crate::outbox;
use crate::schema::dead_letter;

/// The length to which a reason is truncated, since the reason is also a header.
const MAX_REASON_BYTES: usize = 4096;

/// Stores a dead letter, blocks its key and publishes a copy.
///
/// No message makes the statements fail: indexed columns are bounded and texts contain no NUL.
pub(super) async fn store(
    tx: &mut Tx,
    service: &str,
    consumer: &str,
    message: &Message,
    reason: &str,
) -> Result<(), db::Error> {
    let mut reason = storable(reason.as_bytes());
    reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
    diesel::insert_into(dead_letter::table)
        .values((
            dead_letter::consumer.eq(consumer),
            dead_letter::topic.eq(&message.topic),
            dead_letter::partition.eq(message.position.partition),
            dead_letter::offset.eq(message.position.offset),
            dead_letter::published_at.eq(message.position.published_at),
            dead_letter::key.eq(&message.key),
            dead_letter::headers.eq(serde_json::Value::Object(message.headers.clone())),
            dead_letter::payload.eq(&message.payload),
            dead_letter::error.eq(&reason),
        ))
        .execute(tx.conn())
        .await?;
    inbox::set_blocked(tx, consumer, &message.topic, &message.key, true).await?;
    let copy_topic = dead_letter_topic(&message.topic, service);
    outbox::append_dead_letter(tx, consumer, message, &copy_topic, &reason).await
}

/// The member by which messages from outside are ordered.
#[derive(Deserialize)]
struct Versioned {
    #[serde(rename = "Version")]
    version: i64,
}

/// Marks the dead letters whose changes the applied state `message` includes, and unblocks the key
/// if no other is left. Returns the number of superseded dead letters.
///
/// A message with a sequence is newer than all that its key had before, since the inbox drops older
/// ones. Without a sequence the version of the payload decides. A dead letter without a readable
/// version is older than any message.
pub(super) async fn supersede(tx: &mut Tx, consumer: &str, message: &Message) -> Result<usize, db::Error> {
    let Message { topic, key, sequence, payload, position, .. } = message;
    let of_key = dead_letter::consumer.eq(consumer).and(dead_letter::topic.eq(topic));
    let of_key = of_key.and(dead_letter::key.eq(key)).and(dead_letter::superseded_by.is_null());
    let mut newer = Vec::new();
    if sequence.is_none() {
        let letters = dead_letter::table.filter(of_key).select((dead_letter::id, dead_letter::payload));
        let letters: Vec<(i64, Option<Vec<u8>>)> = letters.load(tx.conn()).await?;
        let applied = version(payload.as_deref());
        let is_newer = |payload: Option<Vec<u8>>| version(payload.as_deref()) > applied;
        newer.extend(letters.into_iter().filter_map(|(id, payload)| is_newer(payload).then_some(id)));
    }
    let superseded = dead_letter::table.filter(of_key).filter(dead_letter::id.ne_all(&newer));
    let superseded = diesel::update(superseded)
        .set(dead_letter::superseded_by.eq(position.offset))
        .execute(tx.conn())
        .await?;
    inbox::set_blocked(tx, consumer, topic, key, !newer.is_empty()).await?;
    Ok(superseded)
}

fn version(payload: Option<&[u8]>) -> Option<i64> {
    Some(serde_json::from_slice::<Versioned>(payload?).ok()?.version)
}
