//! The AsyncAPI 3.0 document of a service, generated from its event types.

use runtime::example_of;
use serde_json::{Value, json};
use utoipa::openapi::{RefOr, Schema};

use super::event::Event;

/// A builder of the AsyncAPI document.
pub struct AsyncApi {
    service: &'static str,
    channels: Vec<(String, Value)>,
    operations: Vec<(String, Value)>,
    schemas: Vec<(String, RefOr<Schema>)>,
}

/// An [`Event`] type as a value.
#[derive(Clone, Copy)]
pub struct PublishedEvent {
    pub topic: &'static str,
    describe: fn(&mut AsyncApi),
}

impl PublishedEvent {
    /// Returns the value of event type `E`.
    pub const fn of<E: Event>() -> Self {
        Self { topic: E::TOPIC, describe: AsyncApi::add::<E> }
    }
}

impl AsyncApi {
    /// Describes the events that `service` publishes.
    pub fn of(service: &'static str, events: &[PublishedEvent]) -> Self {
        let mut document =
            Self { service, channels: Vec::new(), operations: Vec::new(), schemas: Vec::new() };
        for event in events {
            (event.describe)(&mut document);
        }
        document
    }

    /// Adds an event with its topic, key and headers.
    fn add<E: Event>(&mut self) {
        let name = E::name().into_owned();
        self.schemas.push((name.clone(), E::schema()));
        E::schemas(&mut self.schemas);
        let payload = json!({"$ref": format!("#/components/schemas/{name}")});
        let headers = headers::<E>(self.service);
        let document = self.components();
        let title = title(&document["components"]["schemas"][&name], &name);
        let message = json!({
            "name": name,
            "title": title,
            "contentType": "application/json",
            "payload": payload,
            "headers": headers,
            "bindings": {"kafka": {"key": {"type": "string", "format": "uuid", "description": "The aggregate's id"}}},
            "examples": [{"name": name, "payload": example_of(&payload, &document), "headers": example_of(&headers, &document)}],
        });
        self.channels
            .push((name.clone(), json!({"address": E::TOPIC, "title": title, "messages": {&name: message}})));
        let operation = json!({
            "action": "send",
            "summary": title,
            "description": "Delivered at least once. Events of one key arrive in the order of their commits. Kafka keeps no order between topics: a consumer of several topics restores it from `ce_sequence`.",
            "channel": {"$ref": format!("#/channels/{name}")},
            "messages": [{"$ref": format!("#/channels/{name}/messages/{name}")}],
        });
        self.operations.push((format!("publish{name}"), operation));
    }

    fn components(&self) -> Value {
        let schemas = self.schemas.iter().map(|(name, schema)| (name.clone(), json!(schema)));
        json!({"components": {"schemas": object(schemas)}})
    }

    /// Returns the document as YAML.
    pub fn to_yaml(self) -> anyhow::Result<String> {
        let service = self.service;
        let description =
            format!("Events that {service} publishes, as CloudEvents 1.0 in Kafka's binary content mode.");
        let mut document = self.components();
        document["asyncapi"] = json!("3.0.0");
        document["info"] = json!({
            "title": format!("Platform: events of {service}"),
            "version": "1.0.0",
            "description": description,
            "contact": {"name": format!("The maintainers of {service}")},
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
            "tags": [{"name": service, "description": "The publishing service"}],
        });
        document["servers"] = json!({
            "kafka": {
                "host": "{brokers}",
                "protocol": "kafka",
                "description": "The platform's message bus",
                "variables": {"brokers": {"default": "127.0.0.1:9092", "description": "`KAFKA_BROKERS`"}},
            },
        });
        document["defaultContentType"] = json!("application/json");
        document["channels"] = object(self.channels);
        document["operations"] = object(self.operations);
        Ok(yaml_serde::to_string(&document)?)
    }
}

/// Returns the first line of the schema's description, or else the name.
fn title(schema: &Value, name: &str) -> String {
    schema["description"].as_str().and_then(|text| text.lines().next()).unwrap_or(name).to_owned()
}

/// Returns the schema of the message headers, which carry the CloudEvents context.
fn headers<E: Event>(service: &str) -> Value {
    let text = |constant: &str| json!({"type": "string", "const": constant});
    json!({
        "type": "object",
        "required": ["ce_specversion", "ce_id", "ce_type", "ce_source", "ce_time", "ce_subject", "ce_sequence", "aggregatetype", "contractversion"],
        "properties": {
            "ce_specversion": text("1.0"),
            "ce_id": {"type": "string", "format": "uuid"},
            "ce_type": text(E::TOPIC),
            "ce_source": text(&format!("/{service}")),
            "ce_time": {"type": "string", "format": "date-time"},
            "ce_subject": {"type": "string", "format": "uuid", "description": "The key"},
            "ce_sequence": {"type": "string", "pattern": "^[0-9]+$", "description": "Increases with every event of a key, over all topics of the service, and has gaps. Sort by it to restore the order of a key's events between topics.", "examples": ["42"]},
            "aggregatetype": text(E::AGGREGATE.name),
            "contractversion": text(&E::CONTRACT_VERSION.to_string()),
            "content-type": text("application/json"),
            "traceparent": {"type": "string", "description": "W3C Trace Context of the change", "examples": ["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"]},
            "tracestate": {"type": "string", "description": "Vendor-specific trace data of W3C Trace Context", "examples": ["vendor=1"]},
        },
    })
}

fn object(members: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Object(members.into_iter().collect())
}
