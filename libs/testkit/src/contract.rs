//! Checks every response and every message of a service under test against the service's documents.
//!
//! A test that receives something undocumented fails.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

use anyhow::{Context, bail, ensure};
use jsonschema::Validator;
use serde_json::{Value, json};
use service::{Endpoints, Service};

use crate::published::Published;
use crate::response::Response;
use crate::{samples, sunset};

/// The documents of running services, by the address of a listener or by the topic.
static CONTRACTS: LazyLock<Mutex<HashMap<String, Arc<Contract>>>> = LazyLock::new(Mutex::default);

/// Returns true for the path of a document or of a page that shows it.
fn is_documentation(path: &str) -> bool {
    path == "/docs" || path.starts_with("/docs/") || path == "/openapi.json"
}

/// A document with the validators of its schemas, each built at its first use.
pub struct Contract {
    document: Value,
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

/// The documents of a service. A test binary starts the service many times and reads them once.
struct Documents {
    public: Arc<Contract>,
    internal: Arc<Contract>,
    events: Arc<Contract>,
    topics: Vec<String>,
}

impl Documents {
    fn of<S: Service>() -> anyhow::Result<Arc<Self>> {
        static READ: LazyLock<Mutex<HashMap<&str, Arc<Documents>>>> = LazyLock::new(Mutex::default);
        let mut read = READ.lock().expect("no test panics here");
        if let Some(documents) = read.get(S::NAME) {
            return Ok(Arc::clone(documents));
        }
        let documents = service::contracts::<S>()?;
        let openapi: Value = yaml_serde::from_str(&documents.openapi)?;
        let events = Contract::read(&documents.asyncapi)?;
        let channels = events.document["channels"].as_object().into_iter().flatten();
        let addresses = channels.filter_map(|(_, channel)| channel["address"].as_str());
        // The address of a stream is a path.
        let topics = addresses.filter(|address| !address.starts_with('/')).map(str::to_owned);
        let documents = Arc::new(Self {
            public: Arc::new(Contract::for_callers(openapi.clone(), "person")),
            internal: Arc::new(Contract::for_callers(openapi, "service")),
            topics: topics.collect(),
            events: Arc::new(events),
        });
        read.insert(S::NAME, Arc::clone(&documents));
        Ok(documents)
    }
}

/// Registers the documents of a service: from now on every response of these listeners and every
/// message of its topics is checked.
///
/// # Errors
/// If the documents cannot be read.
pub(crate) fn register<S: Service>(endpoints: &Endpoints) -> anyhow::Result<()> {
    let documents = Documents::of::<S>()?;
    let mut contracts = CONTRACTS.lock().expect("no test panics here");
    // The admin port has no document, but a stopped listener may have had the same port.
    contracts.remove(&endpoints.admin.to_string());
    for (address, document) in
        [(endpoints.public, &documents.public), (endpoints.internal, &documents.internal)]
    {
        if let Some(address) = address {
            contracts.insert(address.to_string(), Arc::clone(document));
        }
    }
    for topic in &documents.topics {
        contracts.entry(topic.clone()).or_insert_with(|| Arc::clone(&documents.events));
    }
    Ok(())
}

/// Returns the document of the listener at `address`, or of the service that publishes to this
/// topic.
pub(crate) fn of(address: &str) -> Option<Arc<Contract>> {
    CONTRACTS.lock().expect("no test panics here").get(address).cloned()
}

impl Contract {
    /// Parses a document.
    ///
    /// # Errors
    /// If the document is not YAML.
    pub fn read(yaml: &str) -> anyhow::Result<Self> {
        Ok(Self { document: yaml_serde::from_str(yaml)?, validators: Mutex::default() })
    }

    /// Keeps the operations of the port for these callers. Signed callers use the port of users.
    fn for_callers(mut document: Value, callers: &str) -> Self {
        let paths = document["paths"].as_object_mut().into_iter().flatten();
        for (_, item) in paths {
            let is_on_port = |operation: &Value| {
                permits(operation, callers) || callers == "person" && permits(operation, "signature")
            };
            item.as_object_mut()
                .into_iter()
                .for_each(|item| item.retain(|_, operation| is_on_port(operation)));
        }
        Self { document, validators: Mutex::default() }
    }

    /// Checks that the operation documents a response to a request.
    ///
    /// # Errors
    /// The first undocumented property of the response.
    pub fn check_response(&self, method: &str, path: &str, response: &Response) -> anyhow::Result<()> {
        let Some((operation, pointer)) = self.operation(method, path) else {
            let code = response.body["code"].as_str().unwrap_or_default();
            let is_refused = match response.status {
                404 => code.ends_with("NOT_FOUND"),
                405 => code.ends_with("METHOD_NOT_ALLOWED"),
                _ => false,
            };
            ensure!(
                is_refused || method == "HEAD" || is_documentation(path),
                "the operation is not documented"
            );
            return Ok(());
        };
        sunset::check(operation, response)?;
        let status = response.status.to_string();
        let documented = operation["responses"].get(&status).context("its status is not documented")?;
        let (documented, pointer) = self.resolved(documented, format!("{pointer}/responses/{status}"))?;
        let Some(content) = documented.get("content") else {
            ensure!(response.text.is_empty(), "its body is not documented");
            return Ok(());
        };
        let media_type = response.header("content-type").split(';').next().unwrap_or_default();
        ensure!(content.get(media_type).is_some(), "its content type {media_type:?} is not documented");
        let pointer = format!("{pointer}/content/{}/schema", escaped(media_type));
        if !media_type.ends_with("json") {
            return self.check_value(&pointer, &response.text.clone().into(), false);
        }
        // Only some problems have further members, so their schema is not checked for missing ones.
        self.check_value(&pointer, &response.body, response.status < 400)
    }

    /// Checks that the operation documents a request. The tests of calling services use this.
    ///
    /// # Errors
    /// The first undocumented property of the request.
    pub fn check_request(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<()> {
        let (operation, pointer) = self.operation(method, path).context("the operation is not documented")?;
        if operation.get("requestBody").is_none() {
            ensure!(body.is_null(), "its body is not documented");
            return Ok(());
        }
        self.check_value(&format!("{pointer}/requestBody/content/application~1json/schema"), body, false)
    }

    /// Checks an event of a stream against the schema `StreamEvent` of the document.
    ///
    /// # Errors
    /// The first undocumented property of the event.
    pub fn check_stream_event(&self, event: &Value) -> anyhow::Result<()> {
        self.check_value("/components/schemas/StreamEvent", event, true)
    }

    /// Returns every example response of an operation with its status. A calling service must
    /// accept each.
    ///
    /// # Panics
    /// If the operation does not exist.
    pub fn examples(&self, method: &str, path: &str) -> Vec<(u16, Value)> {
        let (operation, _) = self.operation(method, path).expect("an operation");
        let responses = operation["responses"].as_object().into_iter().flatten();
        let mut examples = Vec::new();
        for (status, response) in responses {
            let (response, _) = self.resolved(response, String::new()).expect("a whole document");
            for content in response["content"].as_object().into_iter().flatten().map(|(_, content)| content) {
                let named =
                    content["examples"].as_object().into_iter().flatten().map(|(_, named)| &named["value"]);
                let status: u16 = status.parse().expect("a status");
                examples.extend(named.chain(content.get("example")).map(|example| (status, example.clone())));
            }
        }
        examples
    }

    /// Returns sample bodies of the successful responses of an operation, with their status. Each
    /// member has each value at its limits.
    ///
    /// # Panics
    /// If the operation does not exist.
    pub fn success_samples(&self, method: &str, path: &str) -> Vec<(u16, Value)> {
        let (operation, _) = self.operation(method, path).expect("an operation");
        let responses = operation["responses"].as_object().into_iter().flatten();
        let responses =
            responses.filter_map(|(status, response)| Some((status.parse::<u16>().ok()?, response)));
        let successes = responses.filter(|(status, _)| (200..300).contains(status));
        successes
            .flat_map(|(status, response)| {
                let (response, _) = self.resolved(response, String::new()).expect("a whole document");
                let bodies =
                    samples::values(&self.document, &response["content"]["application/json"]["schema"]);
                bodies.into_iter().map(move |body| (status, body))
            })
            .collect()
    }

    /// Returns sample payloads of a topic, with each member at each limit, or `None` if the topic
    /// is not documented.
    pub fn payload_samples(&self, topic: &str) -> Option<Vec<Value>> {
        let mut channels = self.document["channels"].as_object().into_iter().flatten();
        let (name, channel) = channels.find(|(_, channel)| channel["address"] == topic)?;
        Some(samples::values(&self.document, &channel["messages"][name]["payload"]))
    }

    /// Returns the names of the members of a component.
    pub fn members(&self, component: &str) -> BTreeSet<String> {
        let properties = self.document["components"]["schemas"][component]["properties"].as_object();
        properties.into_iter().flatten().map(|(name, _)| name.clone()).collect()
    }

    /// Returns method and path of each operation for these callers, for example `service`.
    pub fn operations_of(&self, callers: &str) -> Vec<(String, String)> {
        let paths = self.document["paths"].as_object().into_iter().flatten();
        let operations = paths.flat_map(|(path, item)| {
            item.as_object().into_iter().flatten().map(move |(method, operation)| (method, path, operation))
        });
        let permitted = operations.filter(|(_, _, operation)| permits(operation, callers));
        permitted.map(|(method, path, _)| (method.to_ascii_uppercase(), path.clone())).collect()
    }

    /// Follows a reference. Returns its target and the JSON pointer of the target.
    fn resolved<'d>(&'d self, value: &'d Value, pointer: String) -> anyhow::Result<(&'d Value, String)> {
        let Some(reference) = value["$ref"].as_str() else { return Ok((value, pointer)) };
        let pointer = reference.trim_start_matches('#');
        Ok((self.document.pointer(pointer).context("a reference without a target")?, pointer.to_owned()))
    }

    /// Checks that the document of the topic describes a message.
    ///
    /// # Errors
    /// The first undocumented property of the message.
    pub fn check_event(&self, event: &Published) -> anyhow::Result<()> {
        let channels = self.document["channels"].as_object().into_iter().flatten();
        let name = channels.into_iter().find(|(_, channel)| channel["address"] == event.topic.as_str());
        let (name, _) = name.context("its topic is not documented")?;
        let message = format!("/channels/{name}/messages/{name}");
        self.check_value(&format!("{message}/payload"), &event.payload, true)?;
        self.check_value(&format!("{message}/headers"), &json!(event.headers), false)
    }

    /// Checks a value against the schema at `pointer`.
    ///
    /// With `is_whole` the value must have every described member, since services write `null` for
    /// absent values.
    fn check_value(&self, pointer: &str, value: &Value, is_whole: bool) -> anyhow::Result<()> {
        let validator = self.validator(pointer, is_whole)?;
        let errors: Vec<_> =
            validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
        if errors.is_empty() {
            Ok(())
        } else {
            bail!("the value does not match {pointer}: {}", errors.join("; "))
        }
    }

    fn validator(&self, pointer: &str, is_whole: bool) -> anyhow::Result<Arc<Validator>> {
        let mut validators = self.validators.lock().expect("no test panics here");
        if let Some(validator) = validators.get(pointer) {
            return Ok(Arc::clone(validator));
        }
        let mut schema = self.document.pointer(pointer).with_context(|| format!("no {pointer}"))?.clone();
        let mut schemas = self.document["components"]["schemas"].clone();
        close(&mut schema, is_whole);
        schema["unevaluatedProperties"] = json!(false);
        schemas.as_object_mut().into_iter().flatten().for_each(|(_, schema)| close(schema, is_whole));
        schema["components"] = json!({"schemas": schemas});
        let options = jsonschema::options().should_validate_formats(true);
        let validator =
            Arc::new(options.build(&schema).map_err(|error| anyhow::anyhow!("{pointer}: {error}"))?);
        validators.insert(pointer.to_owned(), Arc::clone(&validator));
        Ok(validator)
    }

    /// Returns the operation of a requested path with its JSON pointer.
    fn operation(&self, method: &str, path: &str) -> Option<(&Value, String)> {
        let method = method.to_ascii_lowercase();
        let paths = self.document["paths"].as_object()?.iter();
        // The router prefers `/selections/from-favorites` to `/selections/{selection}`.
        let (template, item) = paths
            .filter(|(template, _)| matches(template, path))
            .min_by_key(|(template, _)| template.matches('{').count())?;
        item.get(&method)?;
        Some((&item[&method], format!("/paths/{}/{method}", escaped(template))))
    }
}

/// Returns true if an operation permits these callers.
fn permits(operation: &Value, callers: &str) -> bool {
    let mut requirements = operation["security"].as_array().into_iter().flatten();
    requirements.any(|requirement| requirement.get(callers).is_some())
}

fn matches(template: &str, path: &str) -> bool {
    let (mut template, mut path) = (template.split('/'), path.split('/'));
    loop {
        match (template.next(), path.next()) {
            (None, None) => return true,
            (Some(part), Some(segment))
                if part == segment || part.starts_with('{') && !segment.is_empty() => {}
            _ => return false,
        }
    }
}

/// Escapes a key for a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Forbids undocumented members in the schemas of members and items, and with `is_whole` requires
/// all described members.
///
/// Documents leave objects open so that contracts can grow, but tests must not receive undocumented
/// members.
fn close(schema: &mut Value, is_whole: bool) {
    let Some(keywords) = schema.as_object_mut() else { return };
    for (keyword, value) in keywords.iter_mut() {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(members)) => {
                for member in members.values_mut() {
                    close_member(member, is_whole);
                }
            }
            ("items", items) => close_member(items, is_whole),
            ("allOf" | "oneOf" | "anyOf", Value::Array(parts)) => {
                for part in parts {
                    close(part, is_whole);
                }
            }
            _ => {}
        }
    }
    if is_whole && let Some(Value::Object(members)) = keywords.get("properties") {
        let names: Vec<_> = members.keys().cloned().collect();
        keywords.insert("required".to_owned(), json!(names));
    }
}

fn close_member(schema: &mut Value, is_whole: bool) {
    close(schema, is_whole);
    let describes = ["$ref", "properties", "allOf", "oneOf", "anyOf"];
    if let Some(keywords) = schema.as_object_mut()
        && describes.iter().any(|keyword| keywords.contains_key(*keyword))
    {
        keywords.insert("unevaluatedProperties".to_owned(), json!(false));
    }
}

#[cfg(test)]
mod tests;
