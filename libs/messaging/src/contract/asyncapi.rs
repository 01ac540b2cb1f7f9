//! The AsyncAPI 3.0 document of a service, generated from its event types.

use std::collections::{BTreeMap, BTreeSet};

use runtime::{description_of, example_of};
use serde_json::{Value, json};
use utoipa::openapi::{RefOr, Schema};

use super::event::Event;

/// A builder of the AsyncAPI document.
pub struct AsyncApi {
    service: &'static str,
    version: &'static str,
    channels: Vec<(String, Value)>,
    operations: Vec<(String, Value)>,
    schemas: Vec<(String, RefOr<Schema>)>,
    streams: Vec<HttpStream>,
}

/// A stream of Server-Sent Events that the service sends over HTTP.
pub struct HttpStream {
    /// The id of its operation.
    pub name: String,
    pub path: String,
    pub title: String,
    pub description: String,
    /// The names of the schemas of its events.
    pub events: Vec<String>,
    pub schemas: BTreeMap<String, Value>,
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
    pub fn of(service: &'static str, version: &'static str, events: &[PublishedEvent]) -> Self {
        let mut document = Self {
            service,
            version,
            channels: Vec::new(),
            operations: Vec::new(),
            schemas: Vec::new(),
            streams: Vec::new(),
        };
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
        let schema = &document["components"]["schemas"][&name];
        let title = title(schema, &name);
        let about = format!(
            "{}\n\nThe key of a message is the id of its {}, and one partition has all messages of a key.",
            single_line_description(schema, &name),
            E::AGGREGATE.name
        );
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
            .push((name.clone(), json!({"address": E::TOPIC, "title": title, "description": about, "servers": [{"$ref": "#/servers/kafka"}], "messages": {&name: message}})));
        let operation = json!({
            "action": "send",
            "summary": title,
            "description": "Delivered at least once. Events of one key arrive in the order of their commits. Kafka keeps no order between topics: a consumer of several topics restores it from `ce_sequence`.",
            "channel": {"$ref": format!("#/channels/{name}")},
            "messages": [{"$ref": format!("#/channels/{name}/messages/{name}")}],
        });
        self.operations.push((format!("publish{name}"), operation));
    }

    /// Adds the streams of the service.
    #[must_use]
    pub fn with_streams(mut self, streams: Vec<HttpStream>) -> Self {
        self.streams = streams;
        self
    }

    /// Describes a stream as a channel on the HTTP server, with a message for each event.
    fn describe_stream(document: &mut Value, stream: HttpStream) {
        for (name, schema) in stream.schemas {
            document["components"]["schemas"][name] = schema;
        }
        let channel = format!("#/channels/{}", stream.name);
        let messages = stream.events.iter().map(|name| {
            let payload = json!({"$ref": format!("#/components/schemas/{name}")});
            let example = example_of(&payload, document);
            let title = title(&document["components"]["schemas"][name], name);
            let message = json!({
                "name": name,
                "title": title,
                "contentType": "application/json",
                "payload": payload,
                "examples": [{"name": name, "payload": example}],
            });
            (name.clone(), message)
        });
        let messages = object(messages.collect::<Vec<_>>());
        let references =
            stream.events.iter().map(|name| json!({"$ref": format!("{channel}/messages/{name}")}));
        let operation = json!({
            "action": "send",
            "summary": stream.title,
            "description": stream.description,
            "channel": {"$ref": channel},
            "messages": references.collect::<Vec<_>>(),
        });
        document["channels"][&stream.name] = json!({
            "address": stream.path,
            "title": stream.title,
            "description": "Server-Sent Events. A payload has the fields `id`, `event` and `data` of an event.",
            "servers": [{"$ref": "#/servers/http"}],
            "messages": messages,
        });
        document["operations"][format!("send_{}", stream.name)] = operation;
        document["servers"]["http"] = json!({
            "host": "{host}",
            "protocol": "https",
            "description": "The public host of the platform",
            "variables": {"host": {"default": "127.0.0.1:8080", "description": "The host of the API"}},
            "security": [{"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "A user's access token."}],
        });
    }

    fn components(&self) -> Value {
        let schemas = self.schemas.iter().map(|(name, schema)| (name.clone(), json!(schema)));
        json!({"components": {"schemas": object(schemas)}})
    }

    /// Returns the document as YAML.
    pub fn to_yaml(self) -> anyhow::Result<String> {
        let (service, version) = (self.service, self.version);
        let description =
            format!("Events that {service} publishes, as CloudEvents 1.0 in Kafka's binary content mode.");
        let mut document = self.components();
        document["asyncapi"] = json!("3.0.0");
        document["info"] = json!({
            "title": format!("Platform: events of {service}"),
            "version": version,
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
        for stream in self.streams {
            Self::describe_stream(&mut document, stream);
        }
        let schemas = document["components"]["schemas"].as_object().into_iter().flatten();
        let described = schemas.filter(|(_, schema)| schema["description"].is_string());
        let described = described.map(|(name, _)| format!("#/components/schemas/{name}")).collect();
        describe_members(&mut document, &described);
        Ok(yaml_serde::to_string(&document)?)
    }
}

/// Returns the description of a schema without its line breaks, or else the name.
fn single_line_description(schema: &Value, name: &str) -> String {
    let text = schema["description"].as_str().unwrap_or(name);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the first sentence of the description of a schema, or else the name.
fn title(schema: &Value, name: &str) -> String {
    let text = single_line_description(schema, name);
    let sentence = text.find(". ").map_or(&*text, |end| &text[..=end]);
    sentence.to_owned()
}

/// Adds a description to each member that neither has one nor refers to a component with one.
/// `described` has the references to these components.
///
/// In a member that may be null, the description is beside the reference, where tools ignore it.
/// This function moves such a description to the member.
fn describe_members(value: &mut Value, described: &BTreeSet<String>) {
    let Value::Object(members) = value else {
        for item in value.as_array_mut().into_iter().flatten() {
            describe_members(item, described);
        }
        return;
    };
    for (key, inner) in members.iter_mut().filter(|(key, _)| *key != "examples") {
        if key == "properties" {
            for (name, member) in inner.as_object_mut().into_iter().flatten() {
                describe(name, member, described);
            }
        }
        describe_members(inner, described);
    }
}

fn describe(name: &str, member: &mut Value, described: &BTreeSet<String>) {
    let Some(members) = member.as_object_mut() else { return };
    let target = members.get("$ref").and_then(Value::as_str);
    if members.contains_key("description") || target.is_some_and(|target| described.contains(target)) {
        return;
    }
    let choices = members.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten();
    let of_choice = choices.filter_map(|choice| choice.as_object_mut()?.remove("description")).last();
    if let Some(description) = of_choice.or_else(|| description_of(name).map(Value::from)) {
        members.insert("description".to_owned(), description);
    }
}

/// Returns the schema of the message headers, which carry the CloudEvents context.
fn headers<E: Event>(service: &str) -> Value {
    let text = |constant: &str, description: &str| json!({"type": "string", "const": constant, "description": description});
    json!({
        "type": "object",
        "required": ["ce_specversion", "ce_id", "ce_type", "ce_source", "ce_time", "ce_subject", "ce_sequence", "aggregatetype", "contractversion"],
        "properties": {
            "ce_specversion": text("1.0", "Version of CloudEvents"),
            "ce_id": {"type": "string", "format": "uuid", "description": "Id of the event. A repeated delivery has the same one."},
            "ce_type": text(E::TOPIC, "Type of the event, which is its topic"),
            "ce_source": text(&format!("/{service}"), "The publishing service"),
            "ce_time": {"type": "string", "format": "date-time", "description": "Time of the change, in UTC"},
            "ce_subject": {"type": "string", "format": "uuid", "description": "The key"},
            "ce_sequence": {"type": "string", "pattern": "^[0-9]+$", "description": "Increases with every event of a key, over all topics of the service, and has gaps. Sort by it to restore the order of a key's events between topics.", "examples": ["42"]},
            "aggregatetype": text(E::AGGREGATE.name, "Kind of the entity whose id is the key"),
            "contractversion": text(&E::CONTRACT_VERSION.to_string(), "Version of the contract of this event"),
            "content-type": text("application/json", "Media type of the payload"),
            "traceparent": {"type": "string", "description": "W3C Trace Context of the change", "examples": ["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"]},
            "tracestate": {"type": "string", "description": "Vendor-specific trace data of W3C Trace Context", "examples": ["vendor=1"]},
        },
    })
}

fn object(members: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Object(members.into_iter().collect())
}
