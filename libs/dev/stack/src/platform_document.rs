//! The OpenAPI document of the public platform, merged from the documents of the services.
//!
//! The document has the operations of users and guests, and each shared component once. If services
//! define a name differently, the most common definition keeps the name. The name of every other
//! definition gets a suffix: the first service with the definition, as in `RoleOfCrm`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};

/// Path of the document in the clone.
pub const PATH: &str = "contracts/openapi/platform.json";

const COMPONENTS: &str = "#/components/";
const COMPONENT_KINDS: [&str; 2] = ["schemas", "responses"];
/// The security schemes of users.
const USER_SCHEMES: [&str; 2] = ["person", "person_sign_in"];

const DESCRIPTION: &str = "The HTTP API of the whole platform for users and guests. Errors are problems (RFC 9457) \
    with a stable `code`. Their messages are localized by `Accept-Language`. Responses may get further members, and \
    enums of responses (`x-extensible-enum`) further values, so a client ignores members and accepts values that it \
    does not know. A breaking change gets a new path. Names of schemas are no part of the contract.";

/// The document of a service.
struct Source {
    service: &'static str,
    document: Value,
}

/// Returns the document as JSON, merged from pairs of a service and its document in YAML.
pub fn merged(contracts: &[(&'static str, String)]) -> anyhow::Result<String> {
    let mut sources = Vec::new();
    for (service, yaml) in contracts {
        let document = yaml_serde::from_str(yaml).context(*service)?;
        sources.push(Source { service, document });
    }
    sources.sort_unstable_by_key(|source| source.service);
    sources.iter_mut().for_each(keep_public);
    distinguish_names(&mut sources);
    let renamed = renamed_components(&sources);
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Platform",
            "description": DESCRIPTION,
            "version": env!("CARGO_PKG_VERSION"),
            "contact": {"name": "The maintainers of the platform"},
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The host that serves this document"}],
        "tags": [],
        "x-tagGroups": [],
        "paths": {},
        "components": {},
    });
    for source in &mut sources {
        merge(&mut document, source, &renamed).context(source.service)?;
    }
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// Keeps the operations of users and guests, and the components and tags that they use.
fn keep_public(source: &mut Source) {
    let document = &mut source.document;
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    for (_, item) in paths {
        if let Some(item) = item.as_object_mut() {
            item.retain(|_, operation| is_public(operation));
        }
    }
    if let Some(paths) = document["paths"].as_object_mut() {
        paths.retain(|_, item| item.as_object().is_some_and(|item| !item.is_empty()));
    }
    let (mut used, mut unread) = (BTreeSet::new(), references(&document["paths"]));
    while let Some(reference) = unread.pop() {
        if used.insert(reference.clone())
            && let Some(component) = document.pointer(&reference[1..])
        {
            unread.extend(references(component));
        }
    }
    for kind in COMPONENT_KINDS {
        if let Some(components) = document["components"][kind].as_object_mut() {
            components.retain(|name, _| used.contains(&format!("{COMPONENTS}{kind}/{name}")));
        }
    }
    let tags: BTreeSet<_> = operations(document)
        .flat_map(|operation| operation["tags"].as_array().cloned().unwrap_or_default())
        .filter_map(|tag| tag.as_str().map(str::to_owned))
        .collect();
    if let Some(all) = document["tags"].as_array_mut() {
        all.retain(|tag| tag["name"].as_str().is_some_and(|name| tags.contains(name)));
    }
}

fn is_public(operation: &Value) -> bool {
    let security = operation["security"].as_array().into_iter().flatten();
    security.into_iter().any(|scheme| *scheme == json!({}) || scheme.get(USER_SCHEMES[0]).is_some())
}

/// Adds the service to the ids of operations and to the tags that two services have.
fn distinguish_names(sources: &mut [Source]) {
    let (mut ids, mut tags) = (BTreeMap::<String, usize>::new(), BTreeMap::<String, usize>::new());
    for source in &*sources {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for operation in operations(&source.document) {
            *ids.entry(text(&operation["operationId"])).or_default() += 1;
        }
        for tag in source.document["tags"].as_array().into_iter().flatten() {
            *tags.entry(text(&tag["name"])).or_default() += 1;
        }
    }
    let is_shared = |names: &BTreeMap<_, _>, name: &Value| {
        name.as_str().is_some_and(|name| names.get(name).is_some_and(|count| *count > 1))
    };
    for Source { service, document } in sources {
        let new_tag = |tag: &mut Value| {
            if is_shared(&tags, tag) {
                *tag = json!(format!("{} of {service}", tag.as_str().unwrap_or_default()));
            }
        };
        for tag in document["tags"].as_array_mut().into_iter().flatten() {
            new_tag(&mut tag["name"]);
        }
        let items = document["paths"].as_object_mut().into_iter().flatten();
        for operation in items.flat_map(|(_, item)| item.as_object_mut().into_iter().flatten()) {
            let operation = operation.1;
            operation["tags"].as_array_mut().into_iter().flatten().for_each(new_tag);
            let id = &mut operation["operationId"];
            if is_shared(&ids, id) {
                *id = json!(format!("{service}_{}", id.as_str().unwrap_or_default()));
            }
        }
    }
}

/// Returns the new reference of each component that services define differently, by the service and
/// the old reference.
///
/// A definition also differs if it refers to a component that differs. The comparison therefore
/// repeats until it finds no further component.
fn renamed_components(sources: &[Source]) -> BTreeMap<(&'static str, String), String> {
    let mut renamed = BTreeMap::new();
    loop {
        let mut definitions: BTreeMap<String, BTreeMap<String, Vec<&'static str>>> = BTreeMap::new();
        for source in sources {
            for (reference, component) in components(&source.document) {
                let definition = definition(component, source.service, &renamed);
                definitions.entry(reference).or_default().entry(definition).or_default().push(source.service);
            }
        }
        let mut next = BTreeMap::new();
        for (reference, services) in definitions {
            let most = services.values().map(Vec::len).max();
            let is_kept = |services: &Vec<_>| Some(services.len()) == most;
            let is_unique = services.values().filter(|services| is_kept(services)).count() == 1;
            for services in services.values().filter(|services| !(is_unique && is_kept(services))) {
                let new = with_service(&reference, services[0]);
                next.extend(services.iter().map(|service| ((*service, reference.clone()), new.clone())));
            }
        }
        if next == renamed {
            return renamed;
        }
        renamed = next;
    }
}

/// Returns a component as text, with the new references and without its examples.
fn definition(
    component: &Value,
    service: &'static str,
    renamed: &BTreeMap<(&'static str, String), String>,
) -> String {
    let mut component = component.clone();
    rename(&mut component, service, renamed);
    drop_examples(&mut component);
    component.to_string()
}

fn drop_examples(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| name != "example" && name != "examples");
            members.values_mut().for_each(drop_examples);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_examples),
        _ => {}
    }
}

/// Returns the reference with the service after the name, in the style of the name: `RoleOfCrm`,
/// `NOT_FOUND_OF_SELECTIONS`.
fn with_service(reference: &str, service: &str) -> String {
    let name = reference.rsplit('/').next().unwrap_or_default();
    if name.contains(char::is_lowercase) {
        let (first, rest) = service.split_at(1);
        format!("{reference}Of{}{rest}", first.to_uppercase())
    } else {
        format!("{reference}_OF_{}", service.to_uppercase())
    }
}

/// Adds the components, paths and tags of a service to the document.
fn merge(
    document: &mut Value,
    source: &mut Source,
    renamed: &BTreeMap<(&'static str, String), String>,
) -> anyhow::Result<()> {
    let Source { service, document: own } = source;
    let all = components(own).map(|(reference, component)| (reference, component.clone()));
    for (reference, mut component) in all.collect::<Vec<_>>() {
        rename(&mut component, service, renamed);
        let reference = renamed.get(&(*service, reference.clone())).cloned().unwrap_or(reference);
        let (kind, name) = reference[COMPONENTS.len()..].split_once('/').context("no component")?;
        let present = &mut document["components"][kind][name];
        if present.is_null() {
            *present = component;
        } else {
            let is_same = definition(present, service, &BTreeMap::new())
                == definition(&component, service, &BTreeMap::new());
            ensure!(is_same, "{reference} names two different components after the renaming");
        }
    }
    for scheme in USER_SCHEMES {
        document["components"]["securitySchemes"][scheme] =
            own["components"]["securitySchemes"][scheme].take();
    }
    rename(&mut own["paths"], service, renamed);
    for (path, item) in own["paths"].as_object_mut().map(std::mem::take).unwrap_or_default() {
        ensure!(document["paths"][&path].is_null(), "another service has {path}");
        document["paths"][path] = item;
    }
    let tags = own["tags"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let names: Vec<_> = tags.iter().map(|tag| tag["name"].clone()).collect();
    let append = |list: &mut Value, items: Vec<Value>| list.as_array_mut().map(|list| list.extend(items));
    append(&mut document["x-tagGroups"], vec![json!({"name": *service, "tags": names})]);
    append(&mut document["tags"], tags);
    Ok(())
}

/// Replaces the references to renamed components, also in the mapping of a discriminator.
fn rename(value: &mut Value, service: &'static str, renamed: &BTreeMap<(&'static str, String), String>) {
    for_each_reference(value, &mut |reference| {
        if let Some(new) = renamed.get(&(service, reference.clone())) {
            reference.clone_from(new);
        }
    });
}

/// Returns each reference to a component.
fn references(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for_each_reference(&mut value.clone(), &mut |reference| found.push(reference.clone()));
    found
}

fn for_each_reference(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) if text.starts_with(COMPONENTS) => change(text),
        Value::Object(members) => members.values_mut().for_each(|member| for_each_reference(member, change)),
        Value::Array(items) => items.iter_mut().for_each(|item| for_each_reference(item, change)),
        _ => {}
    }
}

/// Returns the components of a document with their references.
fn components(document: &Value) -> impl Iterator<Item = (String, &Value)> {
    COMPONENT_KINDS.into_iter().flat_map(move |kind| {
        let components = document["components"][kind].as_object().into_iter().flat_map(Map::iter);
        components.map(move |(name, component)| (format!("{COMPONENTS}{kind}/{name}"), component))
    })
}

fn operations(document: &Value) -> impl Iterator<Item = &Value> {
    let paths = document["paths"].as_object().into_iter().flat_map(Map::values);
    paths.flat_map(|item| item.as_object().into_iter().flat_map(Map::values))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::{PATH, merged, operations};
    use crate::services;

    /// Returns the document of a service with one public and one internal operation. The public one
    /// returns the schema `Page`.
    fn service(name: &'static str, schemas: &Value) -> (&'static str, String) {
        let read = json!({
            "operationId": "list", "tags": ["Lists"], "security": [{"person": []}],
            "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Page"}}}}},
        });
        let internal = json!({"operationId": "sync", "tags": ["Internal"], "security": [{"service": []}]});
        let document = json!({
            "paths": {
                format!("/api/{name}"): {"get": read},
                format!("/api/v1/internal/{name}"): {"post": internal},
            },
            "tags": [{"name": "Lists"}, {"name": "Internal"}],
            "components": {"schemas": schemas, "securitySchemes": {"person": {"type": "http"}}},
        });
        (name, document.to_string())
    }

    fn page_of(item: &Value) -> Value {
        json!({
            "Page": {"properties": {"Item": {"$ref": "#/components/schemas/Item"}}},
            "Item": item,
            "Unused": {"type": "string"},
        })
    }

    fn merge_three(items: [Value; 3]) -> Value {
        let [first, second, third] = items.map(|item| page_of(&item));
        let sources = [service("crm", &first), service("agent", &second), service("news", &third)];
        serde_json::from_str(&merged(&sources).unwrap()).unwrap()
    }

    fn names(document: &Value) -> Vec<&String> {
        document["components"]["schemas"].as_object().unwrap().keys().collect()
    }

    /// RULE-ALL-116: the document has shared components once, and no internal operations.
    #[test]
    fn shared_component_occurs_once() {
        let text = || json!({"type": "string"});
        let document = merge_three([text(), text(), text()]);
        assert_eq!(names(&document), ["Item", "Page"]);
        let paths: Vec<_> = document["paths"].as_object().unwrap().keys().collect();
        assert_eq!(paths, ["/api/agent", "/api/crm", "/api/news"]);
        assert_eq!(document["paths"]["/api/crm"]["get"]["operationId"], "crm_list");
        assert_eq!(document["tags"][0], json!({"name": "Lists of agent"}));
    }

    /// RULE-ALL-116: the most common definition keeps the name. Another definition gets its service
    /// as a suffix, and so does each component that refers to it.
    #[test]
    fn different_component_gets_its_service_as_a_suffix() {
        let document =
            merge_three([json!({"type": "integer"}), json!({"type": "string"}), json!({"type": "string"})]);
        assert_eq!(names(&document), ["Item", "ItemOfCrm", "Page", "PageOfCrm"]);
        let item = &document["components"]["schemas"]["PageOfCrm"]["properties"]["Item"]["$ref"];
        assert_eq!(item, "#/components/schemas/ItemOfCrm");
        let reference = "/paths/~1api~1crm/get/responses/200/content/application~1json/schema/$ref";
        assert_eq!(document.pointer(reference).unwrap(), "#/components/schemas/PageOfCrm");
    }

    /// RULE-ALL-116: without a most common definition no service keeps the name.
    #[test]
    fn components_without_a_majority_all_get_a_suffix() {
        let of = |kind: &str| json!({"type": kind});
        let document = merge_three([of("integer"), of("string"), of("boolean")]);
        let expected = ["ItemOfAgent", "ItemOfCrm", "ItemOfNews", "PageOfAgent", "PageOfCrm", "PageOfNews"];
        assert_eq!(names(&document), expected);
    }

    /// RULE-ALL-025: the refusal of a large body names the limit that the description of the body
    /// has.
    #[test]
    fn refusal_of_a_large_body_names_the_limit_of_its_operation() {
        let document = std::fs::read_to_string(devkit::stack::root().join(PATH)).unwrap();
        let document: Value = serde_json::from_str(&document).unwrap();
        let mut limits = BTreeSet::new();
        for operation in operations(&document).filter(|operation| !operation["requestBody"].is_null()) {
            let description = operation["requestBody"]["description"].as_str().unwrap();
            let [.., number, unit] = description.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{description}")
            };
            let bytes = number.parse::<u64>().unwrap() << if unit == "MiB." { 20 } else { 10 };
            let refusal = &operation["responses"]["413"];
            let reference = refusal["$ref"].as_str().and_then(|reference| document.pointer(&reference[1..]));
            let text = reference.unwrap_or(refusal).to_string();
            assert!(text.contains(&format!("At most {bytes} bytes")), "{} {text}", operation["operationId"]);
            limits.insert(bytes);
        }
        assert!(limits.len() >= 4, "{limits:?}");
    }

    /// RULE-ALL-116: the stored document has every operation of users, each with an id of its own,
    /// and each reference has a target.
    #[test]
    fn document_matches_the_services() {
        let contracts: Vec<_> = services::all()
            .iter()
            .map(|service| (service.name, (service.contracts)().unwrap().openapi))
            .collect();
        let written = std::fs::read_to_string(devkit::stack::root().join(PATH)).unwrap();
        assert!(written == merged(&contracts).unwrap(), "run `cargo dev contracts`");
        let document: Value = serde_json::from_str(&written).unwrap();
        let ids: Vec<_> = operations(&document).map(|operation| &operation["operationId"]).collect();
        let distinct: BTreeSet<_> = ids.iter().map(|id| id.as_str().unwrap()).collect();
        assert!(ids.len() > 150 && distinct.len() == ids.len(), "{}", ids.len());
        for reference in super::references(&document) {
            assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
        }
    }
}
