//! Finds breaking changes between two versions of an OpenAPI or AsyncAPI document.
//!
//! Contracts grow by addition: an operation accepts every released request, and a response or an
//! event keeps every released guarantee.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Returns the breaking changes from the document `released` to the document `present`.
///
/// Both are OpenAPI, or both are AsyncAPI, as YAML.
///
/// # Panics
/// If a document is not YAML.
pub fn changes(released: &str, present: &str) -> Vec<String> {
    let read = |yaml| yaml_serde::from_str(yaml).expect("a document in YAML");
    between(&read(released), &read(present))
}

fn between(old: &Value, new: &Value) -> Vec<String> {
    let mut comparison = Comparison { old, new, breaks: Vec::new(), within: Vec::new() };
    for (path, item) in members(&old["paths"]) {
        for (method, operation) in members(item) {
            comparison.compare_operation(&format!("{method} {path}"), operation, &new["paths"][path][method]);
        }
    }
    for (name, channel) in members(&old["channels"]) {
        comparison.compare_channel(name, channel, &new["channels"][name]);
    }
    comparison.breaks
}

/// The direction of a value, seen from the service.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// A request: accepted values stay accepted.
    In,
    /// A response or an event: guarantees stay in force.
    Out,
}

struct Comparison<'d> {
    old: &'d Value,
    new: &'d Value,
    breaks: Vec<String>,
    /// The pairs of old and new references on the current path. A recursive schema ends at a pair
    /// that is already there.
    within: Vec<(Option<String>, Option<String>)>,
}

impl Comparison<'_> {
    fn fail(&mut self, at: &str, what: impl AsRef<str>) {
        self.breaks.push(format!("{at}: {}", what.as_ref()));
    }

    fn compare_operation(&mut self, at: &str, old: &Value, new: &Value) {
        if new.is_null() {
            return self.fail(at, "the operation is gone");
        }
        if old["operationId"] != new["operationId"] {
            self.fail(at, "the operation id has changed");
        }
        for requirement in list(&old["security"]).filter(|old| !list(&new["security"]).any(|new| new == *old))
        {
            self.fail(at, format!("{requirement} is no longer accepted"));
        }
        let is_same = |one: &Value, other: &Value| one["name"] == other["name"] && one["in"] == other["in"];
        for old in list(&old["parameters"]) {
            let at = format!("{at} ?{}", text(&old["name"]));
            match list(&new["parameters"]).find(|new| is_same(old, new)) {
                None => self.fail(&at, "the parameter is gone"),
                Some(new) => {
                    if new["required"] == true && old["required"] != true {
                        self.fail(&at, "is required now");
                    }
                    self.compare_schema(&at, &old["schema"], &new["schema"], Direction::In);
                }
            }
        }
        for new in list(&new["parameters"]).filter(|new| new["required"] == true) {
            if !list(&old["parameters"]).any(|old| is_same(old, new)) {
                self.fail(at, format!("?{} is a new required parameter", text(&new["name"])));
            }
        }
        let (old_body, new_body) = (&old["requestBody"], &new["requestBody"]);
        if new_body["required"] == true && old_body["required"] != true {
            self.fail(at, "a body is required now");
        }
        self.compare_contents(&format!("{at} request"), old_body, new_body, Direction::In);
        for (status, response) in members(&old["responses"]) {
            let at = format!("{at} {status}");
            match new["responses"].get(status) {
                None => self.fail(&at, "the status is gone"),
                Some(new) => {
                    let (old, new) = (resolved(self.old, response), resolved(self.new, new));
                    self.compare_contents(&at, &old, &new, Direction::Out);
                }
            }
        }
    }

    fn compare_contents(&mut self, at: &str, old: &Value, new: &Value, direction: Direction) {
        for (media_type, content) in members(&old["content"]) {
            match new["content"].get(media_type) {
                None => self.fail(at, format!("{media_type} is gone")),
                Some(new) => self.compare_schema(at, &content["schema"], &new["schema"], direction),
            }
        }
    }

    fn compare_channel(&mut self, name: &str, old: &Value, new: &Value) {
        if new["address"] != old["address"] {
            return self.fail(name, "the topic is gone");
        }
        for (message, old) in members(&old["messages"]) {
            let new = &new["messages"][message];
            for part in ["payload", "headers"] {
                self.compare_schema(&format!("{message} {part}"), &old[part], &new[part], Direction::Out);
            }
            if old["bindings"]["kafka"]["key"]["format"] != new["bindings"]["kafka"]["key"]["format"] {
                self.fail(name, "the format of the key has changed");
            }
        }
    }

    fn compare_schema(&mut self, at: &str, old: &Value, new: &Value, direction: Direction) {
        let references = (reference(old).map(str::to_owned), reference(new).map(str::to_owned));
        if references.0.is_some() && self.within.contains(&references) {
            return;
        }
        self.within.push(references);
        let (old_merged, new_merged) = (merged(self.old, old), merged(self.new, new));
        self.compare_kinds(at, &old_merged, &new_merged, direction);
        self.compare_values(at, &old_merged, &new_merged, direction);
        self.compare_limits(at, &old_merged, &new_merged, direction);
        self.compare_properties(at, &old_merged, &new_merged, direction);
        if !old_merged["items"].is_null() {
            self.compare_schema(&format!("{at}[]"), &old_merged["items"], &new_merged["items"], direction);
        }
        self.within.pop();
    }

    fn compare_kinds(&mut self, at: &str, old: &Value, new: &Value, direction: Direction) {
        let (old_kinds, new_kinds) = (kinds(old), kinds(new));
        let (wide, narrow) = match direction {
            Direction::In => (&new_kinds, &old_kinds),
            Direction::Out => (&old_kinds, &new_kinds),
        };
        if !wide.is_empty() && (narrow.is_empty() || !narrow.is_subset(wide)) {
            self.fail(at, format!("was {old_kinds:?} and is {new_kinds:?}"));
        }
        // A choice may get further shapes. Each released shape must remain.
        for choice in choices(old).filter(|choice| choice["type"] != "null") {
            let fits = |new: &Value| {
                let mut inner = Comparison {
                    old: self.old,
                    new: self.new,
                    breaks: Vec::new(),
                    within: self.within.clone(),
                };
                inner.compare_schema(at, choice, new, direction);
                inner.breaks
            };
            let found: Vec<_> = choices(new).filter(|choice| choice["type"] != "null").map(fits).collect();
            match found.iter().min_by_key(|breaks| breaks.len()) {
                None => self.fail(at, "a choice is gone"),
                Some(breaks) => self.breaks.extend(breaks.clone()),
            }
        }
    }

    /// Compares enumerations. They may get further values, and so may the codes of problems.
    fn compare_values(&mut self, at: &str, old: &Value, new: &Value, direction: Direction) {
        let (old_values, new_values) = (values(old), values(new));
        if old_values.is_empty() && !new_values.is_empty() && direction == Direction::In {
            self.fail(at, "accepts only some values now");
        }
        if !old_values.is_empty() && new_values.is_empty() && direction == Direction::Out {
            self.fail(at, "may be any value now");
        }
        if !new_values.is_empty() {
            for value in old_values.difference(&new_values) {
                self.fail(at, format!("{value} is gone"));
            }
        }
    }

    fn compare_limits(&mut self, at: &str, old: &Value, new: &Value, direction: Direction) {
        for (limit, is_upper) in [
            ("maxLength", true),
            ("maximum", true),
            ("maxItems", true),
            ("minLength", false),
            ("minimum", false),
            ("minItems", false),
        ] {
            let bound = |schema: &Value| {
                schema[limit].as_f64().map_or(f64::INFINITY, |bound| if is_upper { bound } else { -bound })
            };
            let is_broken = match direction {
                Direction::In => bound(new) < bound(old),
                Direction::Out => bound(new) > bound(old),
            };
            if is_broken {
                self.fail(at, format!("{limit} was {} and is {}", old[limit], new[limit]));
            }
        }
        for form in ["format", "pattern"] {
            let stricter = match direction {
                Direction::In => new,
                Direction::Out => old,
            };
            if !stricter[form].is_null() && old[form] != new[form] {
                self.fail(at, format!("{form} was {} and is {}", old[form], new[form]));
            }
        }
    }

    fn compare_properties(&mut self, at: &str, old: &Value, new: &Value, direction: Direction) {
        for (name, old) in members(&old["properties"]) {
            match new["properties"].get(name) {
                None => self.fail(&format!("{at}/{name}"), "the member is gone"),
                Some(new) => self.compare_schema(&format!("{at}/{name}"), old, new, direction),
            }
        }
        let is_required =
            |schema: &Value, name: &Value| list(&schema["required"]).any(|required| required == name);
        let (stricter, weaker) = match direction {
            Direction::In => (new, old),
            Direction::Out => (old, new),
        };
        for name in list(&stricter["required"]).filter(|name| !is_required(weaker, name)) {
            let is_gone = direction == Direction::Out && new["properties"].get(text(name)).is_none();
            if !is_gone {
                let now = if direction == Direction::In { "is required now" } else { "may be missing now" };
                self.fail(&format!("{at}/{}", text(name)), now);
            }
        }
    }
}

pub(crate) fn members(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

pub(crate) fn list(array: &Value) -> impl Iterator<Item = &Value> {
    array.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the reference of a schema, even if the schema also permits `null`.
fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str().or_else(|| choices(schema).find_map(|choice| choice["$ref"].as_str()))
}

fn resolved(document: &Value, value: &Value) -> Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).cloned().unwrap_or_default(),
        None => value.clone(),
    }
}

/// Merges a schema with its references and the parts of `allOf`.
///
/// A choice between one shape and `null` becomes that shape with one more type.
pub(crate) fn merged(document: &Value, schema: &Value) -> Value {
    let mut all = Map::new();
    let resolved = resolved(document, schema);
    let shapes: Vec<_> = choices(&resolved).filter(|choice| choice["type"] != "null").collect();
    if let [only] = shapes[..]
        && choices(&resolved).count() == 2
    {
        let mut shape = merged(document, only);
        let mut kinds = kinds(&shape);
        kinds.insert("null");
        shape["type"] = kinds.into_iter().map(str::to_owned).collect::<Vec<_>>().into();
        return shape;
    }
    let parts: Vec<_> = list(&resolved["allOf"]).map(|part| merged(document, part)).collect();
    for part in parts.iter().chain([&resolved]) {
        for (keyword, value) in members(part).filter(|(keyword, _)| *keyword != "allOf") {
            match (all.get_mut(keyword), value) {
                (Some(Value::Object(all)), Value::Object(more)) if keyword == "properties" => {
                    for (name, narrower) in more {
                        // `Problem` declares `code`, and a response narrows it to its own codes.
                        match all.get_mut(name) {
                            Some(Value::Object(known)) if narrower.is_object() => {
                                known.extend(narrower.as_object().cloned().unwrap_or_default());
                            }
                            _ => _ = all.insert(name.clone(), narrower.clone()),
                        }
                    }
                }
                (Some(Value::Array(all)), Value::Array(more)) if keyword == "required" => {
                    all.extend(more.clone());
                }
                _ => _ = all.insert(keyword.clone(), value.clone()),
            }
        }
    }
    Value::Object(all)
}

pub(crate) fn choices(schema: &Value) -> impl Iterator<Item = &Value> {
    list(&schema["oneOf"]).chain(list(&schema["anyOf"]))
}

pub(crate) fn kinds(schema: &Value) -> BTreeSet<&str> {
    list(&schema["type"]).chain([&schema["type"]]).filter_map(Value::as_str).collect()
}

fn values(schema: &Value) -> BTreeSet<String> {
    let constant = schema.get("const");
    list(&schema["enum"]).chain(constant).map(Value::to_string).collect()
}
