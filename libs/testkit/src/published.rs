//! A message of the bus, as tests and the check of messages read it.

use std::collections::HashMap;

use serde_json::Value;

/// Returns the payloads of the events of one topic, in their order.
pub fn payloads(events: Vec<Published>, topic: &str) -> Vec<Value> {
    events.into_iter().filter(|event| event.topic == topic).map(|event| event.payload).collect()
}

/// A message that was read from the bus.
#[derive(Clone, Debug)]
pub struct Published {
    pub topic: String,
    pub headers: HashMap<String, String>,
    pub payload: Value,
}

impl Published {
    /// Returns `ce_sequence`, or -1 without one.
    pub fn sequence(&self) -> i64 {
        self.headers.get("ce_sequence").and_then(|sequence| sequence.parse().ok()).unwrap_or(-1)
    }
}
