//! The newest published events of an aggregate.

use std::collections::HashMap;

use serde::de::DeserializeOwned;
use uuid::Uuid;

/// The state that consumers know of an aggregate.
#[derive(Debug)]
pub struct PublishedState {
    pub key: Uuid,
    /// The higher one of the published version and the version of the row. 0 if the events have no
    /// version.
    pub version: i64,
    /// The payload of the newest event of each topic since the restored time.
    pub(super) payloads: HashMap<String, Option<Vec<u8>>>,
}

impl PublishedState {
    /// Returns the version that exceeds every earlier one.
    pub fn next_version(&self) -> i64 {
        self.version + 1
    }

    /// Returns true if a topic has an event of the aggregate since the restored time.
    pub fn has(&self, topic: &str) -> bool {
        self.payloads.contains_key(topic)
    }

    /// Deserializes the newest event of a topic. Returns `None` if there is none since the restored
    /// time, or if it does not match `T`.
    pub fn newest<T: DeserializeOwned>(&self, topic: &str) -> Option<T> {
        let payload = self.payloads.get(topic)?.as_deref()?;
        serde_json::from_slice(payload)
            .inspect_err(|error| {
                // The reason has the position but not the value, which may be personal data.
                let (kind, line, column) = (error.classify(), error.line(), error.column());
                tracing::warn!(topic, key = %self.key, ?kind, line, column, "event does not decode");
            })
            .ok()
    }
}
