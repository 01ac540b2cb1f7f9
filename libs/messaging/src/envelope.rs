//! CloudEvents 1.0 in Kafka's binary content mode: context in headers, the payload as the value.

use rdkafka::Message as _;
use rdkafka::message::{BorrowedMessage, Headers, OwnedHeaders};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Failure;

/// A fact that a service publishes. One place names its topic, its key and its version.
pub trait Event: Serialize + ToSchema {
    /// `platform.<area>.<event>.v1`; also the CloudEvents type.
    const TOPIC: &'static str;
    const CONTRACT_VERSION: u32;

    /// The aggregate's id: events of one key arrive in the order of their commits.
    fn key(&self) -> Uuid;
}

/// Longer keys cannot be indexed, and no producer of ours makes any.
const LONGEST_KEY: usize = 512;

/// A message as a [`Handler`](crate::Handler) sees it.
#[derive(Debug)]
pub struct Message {
    pub topic: String,
    pub key: String,
    /// What nobody else's event is called: `ce_source` and `ce_id`, or else the message's place in Kafka.
    pub(crate) id: String,
    /// `ce_sequence`, monotonic per key, when the producer gives one.
    pub(crate) sequence: Option<i64>,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) headers: Map<String, Value>,
    pub(crate) payload: Vec<u8>,
}

impl Message {
    /// The fields that this consumer reads; others are ignored.
    ///
    /// # Errors
    /// [`Failure::Rejected`] when the payload does not have them.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        // Where, not what: the value may be personal, and the reason is logged.
        serde_json::from_slice(&self.payload).map_err(|error| {
            let (kind, line, column) = (error.classify(), error.line(), error.column());
            Failure::Rejected(format!("does not decode: {kind:?} at {line}:{column}"))
        })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(Value::as_str)
    }

    pub(crate) fn from_kafka(message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().into_iter().flat_map(Headers::iter);
        let headers = headers.map(|header| {
            (storable(header.key.as_bytes()), storable(header.value.unwrap_or_default()).into())
        });
        Self::new(
            (message.topic().to_owned(), message.partition(), message.offset()),
            storable(message.key().unwrap_or_default()),
            headers.collect(),
            message.payload().unwrap_or_default().to_vec(),
        )
    }

    /// The message at a place in Kafka: topic, partition, offset.
    pub(crate) fn new(
        (topic, partition, offset): (String, i32, i64),
        mut key: String,
        headers: Map<String, Value>,
        payload: Vec<u8>,
    ) -> Self {
        let text = |name: &str| headers.get(name).and_then(Value::as_str);
        let id = match text("ce_id") {
            Some(id) => format!("{}#{id}", text("ce_source").unwrap_or_default()),
            None => format!("{topic}/{partition}/{offset}"),
        };
        // Without a key there is no order, and nothing that a sequence would count.
        let sequence = text("ce_sequence").filter(|_| !key.is_empty());
        let sequence = sequence.and_then(|sequence| sequence.parse().ok());
        key.truncate(key.floor_char_boundary(LONGEST_KEY));
        Self { topic, key, id, sequence, partition, offset, headers, payload }
    }
}

/// Anybody's bytes as text that PostgreSQL can hold: it has no NUL.
fn storable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}

/// Headers of a message on its way out.
pub(crate) fn headers<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> OwnedHeaders {
    pairs.into_iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
        headers.insert(rdkafka::message::Header { key, value: Some(value) })
    })
}
