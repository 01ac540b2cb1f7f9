//! The AsyncAPI 3.0 document of what a service publishes, from the types that it publishes.

use serde_json::{Value, json};
use utoipa::openapi::{RefOr, Schema};

use crate::Event;

/// Collects a service's events.
pub struct AsyncApi {
    service: &'static str,
    channels: Vec<(String, Value)>,
    operations: Vec<(String, Value)>,
    schemas: Vec<(String, RefOr<Schema>)>,
}

impl AsyncApi {
    pub fn new(service: &'static str) -> Self {
        Self { service, channels: Vec::new(), operations: Vec::new(), schemas: Vec::new() }
    }

    /// Adds an event with its topic, key and headers.
    #[must_use]
    pub fn publishes<E: Event>(mut self) -> Self {
        let name = E::name().into_owned();
        self.schemas.push((name.clone(), E::schema()));
        E::schemas(&mut self.schemas);
        let text = |constant: &str| json!({"type": "string", "const": constant});
        let message = json!({
            "name": name,
            "contentType": "application/json",
            "payload": {"$ref": format!("#/components/schemas/{name}")},
            "headers": {
                "type": "object",
                "required": ["ce_specversion", "ce_id", "ce_type", "ce_source", "ce_time", "ce_subject", "ce_sequence", "contractversion"],
                "properties": {
                    "ce_specversion": text("1.0"),
                    "ce_id": {"type": "string", "format": "uuid"},
                    "ce_type": text(E::TOPIC),
                    "ce_source": text(&format!("/{}", self.service)),
                    "ce_time": {"type": "string", "format": "date-time"},
                    "ce_subject": {"type": "string", "format": "uuid", "description": "The key"},
                    "ce_sequence": {"type": "string", "pattern": "^[0-9]+$", "description": "Grows with every event of a key"},
                    "contractversion": text(&E::CONTRACT_VERSION.to_string()),
                    "traceparent": {"type": "string"},
                },
            },
            "bindings": {"kafka": {"key": {"type": "string", "format": "uuid"}}},
        });
        self.channels.push((name.clone(), json!({"address": E::TOPIC, "messages": {&name: message}})));
        let channel = json!({"$ref": format!("#/channels/{name}")});
        self.operations.push((format!("publish{name}"), json!({"action": "send", "channel": channel})));
        self
    }

    /// The document.
    pub fn to_yaml(self) -> String {
        let schemas = self.schemas.into_iter().map(|(name, schema)| (name, json!(schema)));
        let document = json!({
            "asyncapi": "3.0.0",
            "info": {"title": format!("Platform: events of {}", self.service), "version": "1.0.0"},
            "defaultContentType": "application/json",
            "channels": object(self.channels),
            "operations": object(self.operations),
            "components": {"schemas": object(schemas)},
        });
        yaml_serde::to_string(&document).unwrap_or_else(|error| format!("# {error}\n"))
    }
}

fn object(members: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Object(members.into_iter().collect())
}
