//! The page of who talks to whom, written from what the services declare.

use std::fmt::Write;

use anyhow::Context;
use messaging::topics::{Topic, Topics};
use testkit::contract::Contract;

use crate::areas::Area;

/// Where it is kept.
pub const PAGE: &str = "docs/who-talks-to-whom.md";

const HEAD: &str = "\
# Who talks to whom

Written by `cargo dev contracts` from what the services declare; with `--check` it is compared with them. What each message and each answer
holds is in [contracts/](../contracts/README.md).

## Over Kafka

Whoever consumes also publishes what it puts aside to `<topic>.<service>.dlq`. What is kept by its newest message of each key is compacted.

| Topic | Published by | Key | Partitions | Kept | Consumed by (group) |
|---|---|---|---|---|---|
";

const CALLS: &str = "
## Over HTTP, between services

To the internal port, with a machine token that names the caller; anybody else is answered 403. What failed for a moment is tried again with back-off, and
a breaker answers at once while the other side is plainly down.

| Caller | Calls | Operation | A try takes at most | Tries after the first |
|---|---|---|---|---|
";

const OUTSIDE: &str = "
## Outside

Each service asks the issuer (`AUTH_ISSUER`) for its discovery document and its keys, in the background; who calls another service asks it for machine tokens.

| Caller | Calls | Operation | A try takes at most | Tries after the first |
|---|---|---|---|---|
";

pub fn page(areas: &[Area]) -> anyhow::Result<String> {
    let mut page = HEAD.to_owned();
    for topic in Topics::built_in()?.topics() {
        write_topic(&mut page, areas, topic)?;
    }
    let is_area = |name: &str| areas.iter().any(|area| area.name == name);
    page.push_str(CALLS);
    write_calls(&mut page, areas, is_area)?;
    for area in areas {
        for (method, path) in uncalled(areas, area)? {
            writeln!(page, "| the issuer | {} | `{method} {path}` | its own | its own |", area.name)?;
        }
    }
    page.push_str(OUTSIDE);
    write_calls(&mut page, areas, |name| !is_area(name))?;
    for area in areas {
        for (method, path) in contract(area)?.operations_of("signature") {
            writeln!(
                page,
                "| LiveKit, by its signature | {} | `{method} {path}` | its own | its own |",
                area.name
            )?;
        }
    }
    Ok(page)
}

fn write_topic(page: &mut String, areas: &[Area], topic: &Topic) -> anyhow::Result<()> {
    let publisher = areas.iter().find(|area| area.events.iter().any(|event| event.topic == topic.name));
    let publisher = publisher.map_or("outside the platform", |area| area.name);
    let subscriptions = areas.iter().flat_map(|area| area.consumers.iter().map(move |of| (area.name, of)));
    let consumers = subscriptions.filter(|(_, of)| of.topics.contains(&&*topic.name));
    let consumers: Vec<_> = consumers.map(|(area, of)| format!("{area} (`{}`)", of.group)).collect();
    let consumers = if consumers.is_empty() { "–".to_owned() } else { consumers.join(", ") };
    let kept = topic.retention_days.map_or("newest of each key".to_owned(), |days| format!("{days} days"));
    let Topic { name, key, partitions, .. } = topic;
    Ok(writeln!(page, "| `{name}` | {publisher} | {key} | {partitions} | {kept} | {consumers} |")?)
}

fn write_calls(page: &mut String, areas: &[Area], is_meant: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    for area in areas {
        for call in area.calls.iter().filter(|call| is_meant(call.service)) {
            let (of, method, path) = (call.service, call.method, call.path);
            let (timeout, retries) = (call.timeout.as_secs(), call.retries);
            writeln!(page, "| {} | {of} | `{method} {path}` | {timeout} s | {retries} |", area.name)?;
        }
    }
    Ok(())
}

fn contract(area: &Area) -> anyhow::Result<Contract> {
    Contract::read(&(area.contracts)()?.openapi).context(area.name)
}

/// The internal operations of an area that no other area calls: those of the issuer.
fn uncalled(areas: &[Area], area: &Area) -> anyhow::Result<Vec<(String, String)>> {
    let mut operations = contract(area)?.operations_of("service");
    let calls: Vec<_> =
        areas.iter().flat_map(|area| area.calls).filter(|call| call.service == area.name).collect();
    operations.retain(|(method, path)| !calls.iter().any(|call| call.method == method && call.path == path));
    Ok(operations)
}

#[cfg(test)]
mod tests {
    use super::{PAGE, contract, page, uncalled};
    use crate::areas;

    /// RULE-ALL-068: the page of topics and calls is generated from what the services declare.
    #[test]
    fn the_page_says_what_the_services_declare() {
        let written = std::fs::read_to_string(devkit::stack::root().join(PAGE)).unwrap();
        assert!(written == page(&areas::all()).unwrap(), "run `cargo dev contracts`");
    }

    /// RULE-ALL-066: each declared call has a documented internal operation.
    #[test]
    fn every_call_is_to_an_internal_operation_that_its_owner_documents() {
        for caller in areas::all() {
            for call in caller.calls {
                let Some(callee) = areas::find(call.service) else { continue };
                let operation = (call.method.to_owned(), call.path.to_owned());
                assert!(contract(&callee).unwrap().operations_of("service").contains(&operation), "{call:?}");
            }
        }
    }

    /// RULE-ALL-066: each internal operation has a caller.
    #[test]
    fn every_internal_operation_but_the_issuers_is_called() {
        let areas = areas::all();
        let uncalled: Vec<_> = areas.iter().flat_map(|area| uncalled(&areas, area).unwrap()).collect();
        assert_eq!(uncalled, [("GET".to_owned(), "/api/v1/internal/users/{user_id}/claims".to_owned())]);
    }
}
