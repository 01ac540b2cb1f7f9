//! A message of the bus, as tests and the check of messages read it.

use std::collections::HashMap;

use serde_json::Value;

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
