//! Dead-lettering, which stores a message with its reason and blocks its key.

use db::Tx;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

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
