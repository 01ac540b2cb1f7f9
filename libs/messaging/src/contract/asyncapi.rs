//! The AsyncAPI 3.0 document of what a service publishes, from the types that it publishes.

use runtime::example_of;
use serde_json::{Value, json};
use utoipa::openapi::{RefOr, Schema};

use crate::Event;

/// The document, of a service's events.
pub struct AsyncApi {
    service: &'static str,
    channels: Vec<(String, Value)>,
    operations: Vec<(String, Value)>,
    schemas: Vec<(String, RefOr<Schema>)>,
}

/// An [`Event`] as a value.
#[derive(Clone, Copy)]
pub struct Published {
    pub topic: &'static str,
    describe: fn(&mut AsyncApi),
}

impl Published {
    pub const fn of<E: Event>() -> Self {
        Self { topic: E::TOPIC, describe: AsyncApi::add::<E> }
    }
}

impl AsyncApi {
    /// What `service` publishes.
    pub fn of(service: &'static str, events: &[Published]) -> Self {
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
        let about = about(&document["components"]["schemas"][&name], &name);
        let message = json!({
            "name": name,
            "title": about,
            "contentType": "application/json",
            "payload": payload,
            "headers": headers,
            "bindings": {"kafka": {"key": {"type": "string", "format": "uuid", "description": "The aggregate's id"}}},
            "examples": [{"name": name, "payload": example_of(&payload, &document), "headers": example_of(&headers, &document)}],
        });
        self.channels
            .push((name.clone(), json!({"address": E::TOPIC, "title": about, "messages": {&name: message}})));
        let operation = json!({
            "action": "send",
            "summary": about,
            "description": "At least once, and in the order of the commits per key.",
            "channel": {"$ref": format!("#/channels/{name}")},
            "messages": [{"$ref": format!("#/channels/{name}/messages/{name}")}],
        });
        self.operations.push((format!("publish{name}"), operation));
    }

    fn components(&self) -> Value {
        let schemas = self.schemas.iter().map(|(name, schema)| (name.clone(), json!(schema)));
        json!({"components": {"schemas": object(schemas)}})
    }

    /// The document.
    ///
    /// # Errors
    /// When it cannot be written as YAML.
    pub fn to_yaml(self) -> anyhow::Result<String> {
        let service = self.service;
        let mut document = self.components();
        document["asyncapi"] = json!("3.0.0");
        document["info"] = json!({
            "title": format!("Platform: events of {service}"),
            "version": "1.0.0",
            "description": format!("What {service} publishes: CloudEvents 1.0 in Kafka's binary mode."),
            "contact": {"name": format!("The maintainers of {service}")},
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
            "tags": [{"name": service, "description": "The service that publishes"}],
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

/// The first line that the event's type says of itself.
fn about(schema: &Value, name: &str) -> String {
    schema["description"].as_str().and_then(|text| text.lines().next()).unwrap_or(name).to_owned()
}

/// CloudEvents' context, as Kafka's headers carry it.
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
            "ce_sequence": {"type": "string", "pattern": "^[0-9]+$", "description": "Grows with every event of a key", "examples": ["42"]},
            "aggregatetype": text(E::AGGREGATE.name),
            "contractversion": text(&E::CONTRACT_VERSION.to_string()),
            "content-type": text("application/json"),
            "traceparent": {"type": "string", "description": "W3C Trace Context of the change", "examples": ["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"]},
            "tracestate": {"type": "string", "description": "What else a tracer passes on", "examples": ["vendor=1"]},
        },
    })
}

fn object(members: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Object(members.into_iter().collect())
}
