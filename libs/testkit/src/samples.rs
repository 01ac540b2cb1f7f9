//! Sample values of a JSON schema at its limits. A consumer of a document must accept all of them.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::breaking::{choices, kinds, list, members, merged};

/// Length of the longest sample of a text without `maxLength`.
const UNBOUNDED_TEXT_LENGTH: u64 = 5_000;

/// Length of the longest sample of a list without `maxItems`.
const UNBOUNDED_LIST_LENGTH: usize = 200;

/// Returns valid values of a schema in `document`: an ordinary one, then one for each limit of each
/// member. Ids are random.
///
/// # Panics
/// If the schema has an unknown pattern.
pub(crate) fn values(document: &Value, schema: &Value) -> Vec<Value> {
    let schema = merged(document, schema);
    if let Some(constant) = schema.get("const") {
        return vec![constant.clone()];
    }
    let listed: Vec<_> = list(&schema["enum"]).cloned().collect();
    let mut values = match choices(&schema).map(|choice| values(document, choice)).collect::<Vec<_>>() {
        _ if !listed.is_empty() => listed,
        chosen if !chosen.is_empty() => chosen.concat(),
        _ => kinds(&schema).into_iter().flat_map(|kind| of_kind(document, &schema, kind)).collect(),
    };
    if kinds(&schema).contains("null") && !values.contains(&Value::Null) {
        values.push(Value::Null);
    }
    values.retain(|value| schema["not"]["const"].is_null() || schema["not"]["const"] != *value);
    values
}

fn of_kind(document: &Value, schema: &Value, kind: &str) -> Vec<Value> {
    match kind {
        "boolean" => vec![json!(true), json!(false)],
        "integer" => integers(schema),
        "number" => numbers(schema),
        "string" => texts(schema),
        "array" => arrays(document, schema),
        "object" => objects(document, schema),
        _ => Vec::new(),
    }
}

/// Returns the first of the [`values`] without computing all of them. Nested schemas have many.
fn ordinary(document: &Value, schema: &Value) -> Value {
    let schema = merged(document, schema);
    if let Some(choice) = choices(&schema).next() {
        return ordinary(document, choice);
    }
    let kinds = kinds(&schema);
    match kinds.into_iter().find(|kind| *kind != "null") {
        Some("object") => Value::Object(all_members(document, &schema)),
        Some("array") => json!(vec![ordinary(document, &schema["items"]); min_items(&schema).max(1)]),
        _ => values(document, &schema).into_iter().next().unwrap_or_default(),
    }
}

/// Returns an object with an ordinary value of every member.
fn all_members(document: &Value, schema: &Value) -> Map<String, Value> {
    let members = members(&schema["properties"]);
    members.map(|(name, schema)| (name.clone(), ordinary(document, schema))).collect()
}

fn min_items(array: &Value) -> usize {
    array["minItems"].as_u64().map_or(0, |length| usize::try_from(length).expect("a length of an array"))
}

fn integers(schema: &Value) -> Vec<Value> {
    let (lowest, highest) =
        if schema["format"] == "int32" { (i32::MIN.into(), i32::MAX.into()) } else { (i64::MIN, i64::MAX) };
    let lowest = schema["minimum"].as_i64().unwrap_or(lowest);
    let highest = schema["maximum"].as_i64().unwrap_or(highest);
    vec![json!(1.clamp(lowest, highest)), json!(lowest), json!(highest)]
}

fn numbers(schema: &Value) -> Vec<Value> {
    // Without a limit: 15 digits, all of which a float keeps.
    let lowest = schema["minimum"].as_f64().unwrap_or(-1e15);
    let highest = schema["maximum"].as_f64().unwrap_or(1e15);
    vec![json!(1.5_f64.clamp(lowest, highest)), json!(lowest), json!(highest), json!(highest.trunc())]
}

fn texts(schema: &Value) -> Vec<Value> {
    match schema["format"].as_str() {
        Some("uuid") => return vec![json!(crate::guid()), json!(Uuid::nil()), json!(Uuid::max())],
        Some("date-time") => {
            return vec![
                json!("2026-05-04T09:30:00.123456Z"),
                json!("2026-05-04T09:30:00Z"),
                json!("0001-01-01T00:00:00Z"),
                json!("9999-12-31T23:59:59.999999Z"),
            ];
        }
        _ => {}
    }
    match schema["pattern"].as_str() {
        None => {}
        Some("^[A-Z]{3}$") => return vec![json!("RUB"), json!("AAA"), json!("ZZZ")],
        Some("^[0-9A-Za-z]{12}$") => return vec![json!("7Gq2ZkX0aBcd"), json!("000000000000")],
        Some(pattern) => panic!("no samples for the pattern {pattern}"),
    }
    let repeat =
        |text: &str, length: u64| json!(text.repeat(usize::try_from(length).expect("a length of a text")));
    let shortest = schema["minLength"].as_u64().unwrap_or(0);
    let longest = schema["maxLength"].as_u64().unwrap_or(UNBOUNDED_TEXT_LENGTH);
    vec![
        repeat("Ж", 7.clamp(shortest, longest)),
        repeat(" ", shortest),
        // A character of four bytes in UTF-8, and one of six bytes when escaped.
        repeat("\u{1f3e0}", longest),
        repeat("\u{1}", longest),
    ]
}

fn arrays(document: &Value, schema: &Value) -> Vec<Value> {
    let items = values(document, &schema["items"]);
    let ordinary = items.first().cloned().unwrap_or_default();
    let repeat = |value: &Value, length: usize| json!(vec![value; length]);
    let shortest = min_items(schema);
    let longest = schema["maxItems"]
        .as_u64()
        .map_or(UNBOUNDED_LIST_LENGTH, |length| usize::try_from(length).expect("a length of an array"));
    let limits = items.iter().map(|item| repeat(item, shortest.max(1)));
    limits.chain([repeat(&ordinary, shortest), repeat(&ordinary, longest)]).collect()
}

fn objects(document: &Value, schema: &Value) -> Vec<Value> {
    let all = || all_members(document, schema);
    let mut objects = vec![all()];
    // In the last of these objects, each member has its last value.
    let (mut object, mut with_last_values) = (all(), all());
    object.retain(|name, _| list(&schema["required"]).any(|required| required == name));
    objects.push(object);
    for (name, member) in members(&schema["properties"]) {
        for value in values(document, member).into_iter().skip(1) {
            with_last_values.insert(name.clone(), value.clone());
            object = all();
            object.insert(name.clone(), value);
            objects.push(object);
        }
    }
    objects.push(with_last_values);
    // Contracts grow: unknown members before and after the others.
    object = Map::from_iter([("AAddedLater".to_owned(), json!({"Id": [null, 1.5, {"Version": "x"}]}))]);
    object.extend(all());
    object.insert("ZAddedLater".to_owned(), json!("\u{1f3e0}"));
    objects.push(object);
    objects.into_iter().map(Value::Object).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::values;

    fn samples(schema: &Value) -> Vec<Value> {
        values(&json!({"Level": {"type": "integer", "minimum": -2, "maximum": 9}}), schema)
    }

    /// RULE-ALL-067: the samples contain each member at each limit, absent optional members, and
    /// unknown members.
    #[test]
    fn samples_contain_each_limit_of_each_member() {
        let shelf = json!({
            "type": "object",
            "required": ["Level"],
            "properties": {
                "Level": {"$ref": "#/Level"},
                "Label": {"oneOf": [{"type": "string", "maxLength": 2}, {"type": "null"}]},
                "Kind": {"enum": ["Open", "Closed"], "type": "string"},
            },
        });
        let shelves = samples(&shelf);
        assert!(shelves.contains(&json!({"Level": 1})), "optional members are absent");
        for (member, limit) in [
            ("Level", json!(-2)),
            ("Level", json!(9)),
            ("Label", json!("")),
            ("Label", json!("\u{1f3e0}\u{1f3e0}")),
            ("Label", Value::Null),
            ("Kind", json!("Closed")),
        ] {
            assert!(shelves.iter().any(|shelf| shelf[member] == limit), "{member}: {limit}");
        }
        assert!(
            shelves.iter().any(|shelf| !shelf["AAddedLater"].is_null() && !shelf["ZAddedLater"].is_null())
        );
    }

    /// RULE-ALL-067: the samples of `allOf` have the members of all parts.
    #[test]
    fn samples_of_all_of_have_the_members_of_each_part() {
        let part = |member: &str| json!({"type": "object", "required": [member], "properties": {member: {"type": "boolean"}}});
        let whole = samples(&json!({"allOf": [part("IsHigh"), part("IsWide")]}));
        assert_eq!(whole[0], json!({"IsHigh": true, "IsWide": true}));
        assert!(whole.contains(&json!({"IsHigh": true, "IsWide": false})));
    }
}
