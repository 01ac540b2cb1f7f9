//! The declarations of a service that its chart reads: `helm/<service>/declared.yaml`.

use std::fmt::Write;

use anyhow::Context;
use messaging::topics::{Topics, dead_letter_topic};

use crate::services::ServiceEntry;

const HEAD: &str = "\
# `cargo dev contracts` writes this file from the service and deploy/kafka/topics.yaml; `--check` compares it.
";

/// Returns the file of a service: its topics, the permissions of its Kafka user, its callees and
/// its callers.
pub fn declared(services: &[ServiceEntry], service: &ServiceEntry) -> anyhow::Result<String> {
    let topics = Topics::built_in()?;
    let mut created = (service.topics)();
    created.retain(|topic| topics.is_created_by(service.name, topic));
    let consumed =
        || service.consumers.iter().flat_map(|of| of.topics.iter().map(|topic| (*topic, of.group)));
    let dead_letters = consumed().map(|(topic, _)| dead_letter_topic(topic, service.name));
    let mut published: Vec<_> =
        service.events.iter().map(|event| event.topic.to_owned()).chain(dead_letters).collect();
    published.sort_unstable();
    published.dedup();
    let called = services.iter().filter(|callee| calls(service, callee)).map(|callee| callee.name);
    let callers = services.iter().filter(|caller| calls(caller, service)).map(|caller| caller.name);

    let mut file = HEAD.to_owned();
    file.push_str("\n# Topics that the service creates. The external system publishes to `external.…`.\n");
    list(
        &mut file,
        "topics",
        created.iter().map(|name| {
            let layout = topics.spec(name).with_context(|| format!("{name} is not declared"))?;
            let replicas = layout.replicas.context("topics.yaml has no replicas")?;
            let settings: Vec<_> =
                layout.settings.iter().map(|(name, value)| format!("{name}: \"{value}\"")).collect();
            let (partitions, settings) = (layout.partitions, settings.join(", "));
            Ok(format!(
                "{{name: {name}, partitions: {partitions}, replicas: {replicas}, config: {{{settings}}}}}"
            ))
        }),
    )?;
    file.push_str("\n# The service's events and its dead letters.\n");
    list(&mut file, "publishes", published.into_iter().map(Ok))?;
    file.push('\n');
    list(
        &mut file,
        "consumes",
        consumed().map(|(topic, group)| {
            let partitions =
                topics.spec(topic).with_context(|| format!("{topic} is not declared"))?.partitions;
            Ok(format!("{{topic: {topic}, group: {group}, partitions: {partitions}}}"))
        }),
    )?;
    file.push_str("\n# Calls of internal ports: the callees and the callers of the service.\n");
    list(&mut file, "calls", called.map(|name| Ok(name.to_owned())))?;
    list(&mut file, "callers", callers.map(|name| Ok(name.to_owned())))?;
    Ok(file)
}

fn calls(service: &ServiceEntry, other: &ServiceEntry) -> bool {
    service.calls.iter().any(|call| call.service == other.name)
}

/// Appends a YAML list with one item a line.
fn list(
    file: &mut String,
    name: &str,
    items: impl Iterator<Item = anyhow::Result<String>>,
) -> anyhow::Result<()> {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return Ok(writeln!(file, "{name}: []")?);
    }
    writeln!(file, "{name}:")?;
    for item in items {
        writeln!(file, "  - {}", item?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::declared;
    use crate::services;
    use devkit::stack;

    /// RULE-ALL-068: the chart is generated from what its service declares.
    #[test]
    fn declared_yaml_matches_the_declarations() {
        let services = services::all();
        for service in &services {
            let path = stack::root().join("helm").join(service.name).join("declared.yaml");
            let written = std::fs::read_to_string(&path).unwrap();
            assert!(
                written == declared(&services, service).unwrap(),
                "{}: run `cargo dev contracts`",
                service.name
            );
        }
    }

    /// The Gateway of a chart routes the same paths as the gateway of the local stack.
    #[test]
    fn chart_routes_the_paths_of_its_service() {
        for service in services::all() {
            let path = stack::root().join("helm").join(service.name).join("values.yaml");
            let values: serde_json::Value =
                yaml_serde::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            let routed = values["app"]["httpRoute"]["paths"].as_array().unwrap();
            let routed: BTreeSet<_> = routed.iter().map(|path| path.as_str().unwrap()).collect();
            assert_eq!(routed, service.prefixes.iter().copied().collect(), "{}", service.name);
        }
    }
}
