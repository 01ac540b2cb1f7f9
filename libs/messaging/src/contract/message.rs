//! Received messages: CloudEvents 1.0 in Kafka's binary content mode.
//!
//! The context attributes are headers and the payload is the record's value.

use rdkafka::Message as _;
use rdkafka::message::{BorrowedMessage, Headers};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::failure::Failure;

/// The longest text in bytes that is stored in an index. Longer text is replaced by its prefix and
/// its hash.
const MAX_INDEXED_BYTES: usize = 512;
const PREFIX_BYTES: usize = 256;

/// The prefix of the platform's topics. Producers of other topics may give `ce_sequence` another
/// meaning.
const PLATFORM_PREFIX: &str = "platform.";

/// A message as a [`Handler`](crate::Handler) receives it.
#[derive(Debug)]
pub struct Message {
    pub topic: String,
    pub key: String,
    /// The `ce_sequence`, which increases with each event of a key.
    /// `None` for messages without a key and for messages from outside the platform.
    pub sequence: Option<i64>,
    /// The time of the event (`ce_time`), or else of its publication.
    pub time: Option<OffsetDateTime>,
    /// The time of the event (`ce_time`), which is the same for each publication.
    pub(crate) event_time: Option<OffsetDateTime>,
    /// A unique id: topic, `ce_source` and `ce_id`. Without `ce_id`, the id consists of the topic,
    /// the position in Kafka and the time of publication.
    pub(crate) id: String,
    pub(crate) position: KafkaPosition,
    pub(crate) headers: Map<String, Value>,
    pub(crate) payload: Option<Vec<u8>>,
}

/// The position of a message in its topic, with the time of its publication.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KafkaPosition {
    pub partition: i32,
    pub offset: i64,
    pub published_at: Option<OffsetDateTime>,
}

impl Message {
    /// Deserializes the payload. Unknown fields are ignored.
    ///
    /// # Errors
    /// [`Failure::Rejected`] for a tombstone, and for a payload that does not match `T`.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let Some(payload) = &self.payload else {
            return Err(Failure::Rejected("a tombstone".to_owned()));
        };
        // The reason is logged, so it has the position but not the value, which may be personal
        // data.
        serde_json::from_slice(payload).map_err(|error| {
            let (kind, line, column) = (error.classify(), error.line(), error.column());
            Failure::Rejected(format!("does not decode: {kind:?} at {line}:{column}"))
        })
    }

    /// Returns true if the message marks its key as deleted.
    pub fn is_tombstone(&self) -> bool {
        self.payload.is_none()
    }

    /// Returns the text of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(Value::as_str)
    }

    /// Returns the approximate size in memory: key, headers and payload.
    pub(crate) fn bytes(&self) -> usize {
        let text = |value: &Value| value.as_str().map_or(0, str::len);
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + text(value)).sum();
        self.key.len() + headers + self.payload.as_ref().map_or(0, Vec::len)
    }

    pub(crate) fn from_kafka(message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().into_iter().flat_map(Headers::iter);
        let headers = headers
            .map(|header| (storable(header.key.as_bytes()), storable(header.value.unwrap_or_default())));
        let published_at = message.timestamp().to_millis().and_then(|millis| {
            OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000).ok()
        });
        let position =
            KafkaPosition { partition: message.partition(), offset: message.offset(), published_at };
        Self::new(
            message.topic().to_owned(),
            position,
            storable(message.key().unwrap_or_default()),
            headers_by_name(headers),
            message.payload().map(<[u8]>::to_vec),
        )
    }

    pub(crate) fn new(
        topic: String,
        position: KafkaPosition,
        key: String,
        headers: Map<String, Value>,
        payload: Option<Vec<u8>>,
    ) -> Self {
        let text = |name: &str| headers.get(name).and_then(Value::as_str);
        let published_ms = position.published_at.map(|time| time.unix_timestamp_nanos() / 1_000_000);
        let id = if let Some(id) = text("ce_id") {
            json!([topic, text("ce_source"), id])
        } else {
            let published_ms = published_ms.and_then(|ms| i64::try_from(ms).ok());
            json!([topic, position.partition, position.offset, published_ms])
        };
        // A sequence orders the events of a key, so it has no meaning without a key.
        let is_sequenced = topic.starts_with(PLATFORM_PREFIX) && !key.is_empty();
        let sequence = text("ce_sequence").filter(|_| is_sequenced).and_then(|text| text.parse().ok());
        let event_time = text("ce_time").and_then(|time| OffsetDateTime::parse(time, &Rfc3339).ok());
        let time = event_time.or(position.published_at);
        let (id, key) = (indexable(id.to_string()), indexable(key));
        Self { topic, key, sequence, time, event_time, id, position, headers, payload }
    }
}

/// Returns headers by name. If a name repeats, the last header counts.
///
/// Several trace context headers become one comma-separated value, as in HTTP. A `traceparent` with
/// several values is therefore invalid.
fn headers_by_name(headers: impl Iterator<Item = (String, String)>) -> Map<String, Value> {
    let mut unique = Map::new();
    for (name, value) in headers {
        match unique.get_mut(&name) {
            Some(Value::String(list)) if matches!(&*name, "traceparent" | "tracestate") => {
                list.push(',');
                list.push_str(&value);
            }
            _ => {
                unique.insert(name, value.into());
            }
        }
    }
    unique
}

/// Shortens text to at most [`MAX_INDEXED_BYTES`]. Different texts stay different.
fn indexable(mut text: String) -> String {
    if text.len() > MAX_INDEXED_BYTES {
        let hash = Sha256::digest(text.as_bytes());
        text.truncate(text.floor_char_boundary(PREFIX_BYTES));
        text.push_str("… sha256 ");
        text.extend(
            hash.iter()
                .flat_map(|byte| [byte >> 4, byte & 15])
                .filter_map(|digit| char::from_digit(digit.into(), 16)),
        );
    }
    text
}

/// Converts bytes to text that PostgreSQL can store: valid UTF-8 without NUL.
pub(crate) fn storable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::{KafkaPosition, Message, headers_by_name, indexable};

    fn message(topic: &str, key: &str, headers: &Value) -> Message {
        let position = KafkaPosition { partition: 1, offset: 7, published_at: None };
        let headers: Map<String, Value> = headers.as_object().unwrap().clone();
        Message::new(topic.to_owned(), position, key.to_owned(), headers, None)
    }

    /// RULE-EVT-037, RULE-EVT-006: the sequence of a message from outside the platform is ignored.
    #[test]
    fn sequence_is_read_only_for_keys_of_platform_topics() {
        let headers = json!({"ce_sequence": "42"});
        let sequence = |topic, key| message(topic, key, &headers).sequence;
        assert_eq!(sequence("platform.crm.deal-created.v1", "1"), Some(42));
        assert_eq!(sequence("platform.crm.deal-created.v1", ""), None, "no key, no sequence");
        assert_eq!(sequence("external.chessboard.developer-upserted.v1", "1"), None);
    }

    /// RULE-EVT-037, RULE-EVT-006: a message from outside the platform is identified by topic,
    /// source and id, or by its position.
    #[test]
    fn message_is_identified_by_topic_source_and_id() {
        let id = |topic, source, id| message(topic, "", &json!({"ce_source": source, "ce_id": id})).id;
        let ids = [
            id("a", "/s", "1"),
            id("b", "/s", "1"),
            id("a", "/t", "1"),
            id("a", "/s", "2"),
            id("a", "/s#", "1"),
        ];
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "{ids:?}");
        assert_eq!(id("a", "/s", "1"), ids[0]);
        assert_eq!(message("a", "", &json!({})).id, "[\"a\",1,7,null]", "the position identifies it");
    }

    /// RULE-ALL-043: several trace contexts of a message become one list, which is not a valid
    /// trace.
    #[test]
    fn repeated_trace_context_becomes_a_list() {
        let headers = [("ce_id", "1"), ("traceparent", "a"), ("ce_id", "2"), ("traceparent", "b")];
        let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(Value::Object(headers_by_name(headers)), json!({"ce_id": "2", "traceparent": "a,b"}));
    }

    /// RULE-EVT-036: long texts in an index, such as ids and keys, are shortened and stay distinct.
    #[test]
    fn long_text_is_shortened_and_stays_distinct() {
        let (one, other) = ("x".repeat(10_000), "x".repeat(10_001));
        assert!(indexable(one.clone()).len() <= 512);
        assert_ne!(indexable(one), indexable(other));
        assert_eq!(indexable("short".to_owned()), "short");
    }
}
