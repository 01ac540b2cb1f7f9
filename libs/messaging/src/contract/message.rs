//! CloudEvents 1.0 in Kafka's binary content mode: context in headers, the payload as the value.

use rdkafka::Message as _;
use rdkafka::message::{BorrowedMessage, Headers, OwnedHeaders};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Failure;

/// What events tell of: a kind of thing, of which the service that publishes them has a row for each.
#[derive(Clone, Copy, Debug)]
pub struct Aggregate {
    /// `aggregatetype` on the wire: `Selection`.
    pub name: &'static str,
    /// Its rows are locked by those who tell of them, so that events of one key are told in order.
    pub table: &'static str,
    /// The column, a unique `uuid`, that is the key of its events.
    pub key: &'static str,
}

/// A fact that a service publishes. One place names its topic, its key and its version.
pub trait Event: Serialize + ToSchema {
    /// `platform.<area>.<event>.v1`; also the CloudEvents type.
    const TOPIC: &'static str;
    const CONTRACT_VERSION: u32;
    const AGGREGATE: Aggregate;

    /// The aggregate's id: events of one key arrive in the order of their commits.
    fn key(&self) -> Uuid;
}

/// Longer text cannot be indexed: its beginning and its hash stand for it.
const LONGEST: usize = 512;
const BEGINNING: usize = 256;

/// Topics of the platform. Whoever publishes to others is not bound to what the platform means by `ce_sequence`.
const PLATFORM: &str = "platform.";

/// A message as a [`Handler`](crate::Handler) sees it.
#[derive(Debug)]
pub struct Message {
    pub topic: String,
    pub key: String,
    /// `ce_sequence`, which grows with each event of a key. `None` without a key, and from outside the platform.
    pub sequence: Option<i64>,
    /// When it happened (`ce_time`), or else when it was published.
    pub time: Option<OffsetDateTime>,
    /// What no other event is called: topic, `ce_source` and `ce_id`, or else its place in Kafka and its time there.
    pub(crate) id: String,
    pub(crate) at: Place,
    pub(crate) headers: Map<String, Value>,
    pub(crate) payload: Option<Vec<u8>>,
}

/// Where in its topic Kafka has a message, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub partition: i32,
    pub offset: i64,
    pub published_at: Option<OffsetDateTime>,
}

impl Message {
    /// The fields that this consumer reads; others are ignored.
    ///
    /// # Errors
    /// [`Failure::Rejected`] when the payload does not have them, as that of a tombstone.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let Some(payload) = &self.payload else {
            return Err(Failure::Rejected("a tombstone".to_owned()));
        };
        // Where, not what: the value may be personal, and the reason is logged.
        serde_json::from_slice(payload).map_err(|error| {
            let (kind, line, column) = (error.classify(), error.line(), error.column());
            Failure::Rejected(format!("does not decode: {kind:?} at {line}:{column}"))
        })
    }

    /// Whether it says that nothing is left of its key.
    pub fn is_tombstone(&self) -> bool {
        self.payload.is_none()
    }

    /// A header, if it is there.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(Value::as_str)
    }

    /// What it takes of memory, but for some bytes: key, headers and payload.
    pub(crate) fn bytes(&self) -> usize {
        let text = |value: &Value| value.as_str().map_or(0, str::len);
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + text(value)).sum();
        self.key.len() + headers + self.payload.as_ref().map_or(0, Vec::len)
    }

    pub(crate) fn from_kafka(message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().into_iter().flat_map(Headers::iter);
        let headers = headers.map(|header| {
            (storable(header.key.as_bytes()), storable(header.value.unwrap_or_default()).into())
        });
        let published_at = message.timestamp().to_millis().and_then(|millis| {
            OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000).ok()
        });
        let at = Place { partition: message.partition(), offset: message.offset(), published_at };
        Self::new(
            message.topic().to_owned(),
            at,
            storable(message.key().unwrap_or_default()),
            headers.collect(),
            message.payload().map(<[u8]>::to_vec),
        )
    }

    pub(crate) fn new(
        topic: String,
        at: Place,
        key: String,
        headers: Map<String, Value>,
        payload: Option<Vec<u8>>,
    ) -> Self {
        let text = |name: &str| headers.get(name).and_then(Value::as_str);
        let published_ms = at.published_at.map(|time| time.unix_timestamp_nanos() / 1_000_000);
        let id = match text("ce_id") {
            Some(id) => json!([topic, text("ce_source"), id]),
            None => {
                json!([topic, at.partition, at.offset, published_ms.and_then(|ms| i64::try_from(ms).ok())])
            }
        };
        // Without a key there is no order, and nothing that a sequence would count.
        let counts = topic.starts_with(PLATFORM) && !key.is_empty();
        let sequence = text("ce_sequence").filter(|_| counts).and_then(|sequence| sequence.parse().ok());
        let happened = text("ce_time").and_then(|time| OffsetDateTime::parse(time, &Rfc3339).ok());
        let time = happened.or(at.published_at);
        Self { id: bounded(id.to_string()), key: bounded(key), topic, sequence, time, at, headers, payload }
    }
}

/// Text that can be indexed, different for different text.
fn bounded(mut text: String) -> String {
    if text.len() > LONGEST {
        let hash = Sha256::digest(text.as_bytes());
        text.truncate(text.floor_char_boundary(BEGINNING));
        text.push_str("… sha256 ");
        text.extend(
            hash.iter()
                .flat_map(|byte| [byte >> 4, byte & 15])
                .filter_map(|half| char::from_digit(half.into(), 16)),
        );
    }
    text
}

/// Anybody's bytes as text that PostgreSQL can hold: it has no NUL.
pub(crate) fn storable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}

/// Headers of a message on its way out.
pub(crate) fn headers<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> OwnedHeaders {
    pairs.into_iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
        headers.insert(rdkafka::message::Header { key, value: Some(value) })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::{Message, Place, bounded};

    fn message(topic: &str, key: &str, headers: &Value) -> Message {
        let at = Place { partition: 1, offset: 7, published_at: None };
        let headers: Map<String, Value> = headers.as_object().unwrap().clone();
        Message::new(topic.to_owned(), at, key.to_owned(), headers, None)
    }

    #[test]
    fn a_sequence_counts_for_a_key_of_the_platform_alone() {
        let headers = json!({"ce_sequence": "42"});
        let sequence = |topic, key| message(topic, key, &headers).sequence;
        assert_eq!(sequence("platform.crm.deal-created.v1", "1"), Some(42));
        assert_eq!(sequence("platform.crm.deal-created.v1", ""), None, "without a key nothing is counted");
        assert_eq!(sequence("external.chessboard.developer-upserted.v1", "1"), None);
    }

    #[test]
    fn an_event_is_told_apart_by_topic_source_and_id() {
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
        assert_eq!(message("a", "", &json!({})).id, "[\"a\",1,7,null]", "or by its place");
    }

    #[test]
    fn long_text_is_cut_and_stays_different() {
        let (one, other) = ("x".repeat(10_000), "x".repeat(10_001));
        assert!(bounded(one.clone()).len() <= 512);
        assert_ne!(bounded(one), bounded(other));
        assert_eq!(bounded("short".to_owned()), "short");
    }
}
