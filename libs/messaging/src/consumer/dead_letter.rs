//! Dead-lettering, which stores a message with its reason and blocks its key until the dead letter
//! is replayed, discarded or superseded.

use db::Tx;
use diesel::dsl::exists;
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
            dead_letter::version.eq(version(message.payload.as_deref())),
            dead_letter::error.eq(&reason),
        ))
        .execute(tx.conn())
        .await?;
    inbox::set_blocked(tx, consumer, &message.topic, &message.key, true).await?;
    let copy_topic = dead_letter_topic(&message.topic, service);
    outbox::append_dead_letter(tx, consumer, message, &copy_topic, &reason).await
}

/// The member that orders messages of other systems.
#[derive(Deserialize)]
struct Versioned {
    #[serde(rename = "Version")]
    version: i64,
}

/// Marks the dead letters that the applied `message` supersedes, because its state includes their
/// changes. Unblocks the key if no other dead letter is left. Returns the number of superseded
/// dead letters.
///
/// A message with a sequence is newer than all earlier messages of its key, since the inbox drops
/// older ones. Without a sequence the version of the payload decides. A dead letter without a
/// readable version is older than any message.
pub(super) async fn supersede(tx: &mut Tx, consumer: &str, message: &Message) -> Result<usize, db::Error> {
    let Message { topic, key, sequence, payload, position, .. } = message;
    let of_key = dead_letter::consumer.eq(consumer).and(dead_letter::topic.eq(topic));
    let of_key = of_key.and(dead_letter::key.eq(key)).and(dead_letter::superseded_by.is_null());
    let of_key = dead_letter::table.filter(of_key);
    let newest = match sequence {
        Some(_) => i64::MAX,
        None => version(payload.as_deref()).unwrap_or(i64::MIN),
    };
    let is_superseded = dead_letter::version.is_null().or(dead_letter::version.le(newest));
    let superseded = diesel::update(of_key.filter(is_superseded))
        .set(dead_letter::superseded_by.eq(position.offset))
        .execute(tx.conn())
        .await?;
    let is_blocked = diesel::select(exists(of_key)).get_result(tx.conn()).await?;
    inbox::set_blocked(tx, consumer, topic, key, is_blocked).await?;
    Ok(superseded)
}

fn version(payload: Option<&[u8]>) -> Option<i64> {
    Some(serde_json::from_slice::<Versioned>(payload?).ok()?.version)
}
