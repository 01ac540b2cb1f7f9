//! The page of calls and topics, written from the declarations of the services.

use std::fmt::Write;

use anyhow::Context;
use messaging::topics::{Topic, Topics};
use testkit::contract::Contract;

use crate::services::ServiceEntry;

/// Path of the page in the clone.
pub const PAGE: &str = "docs/calls-and-topics.md";

const HEAD: &str = "\
# Calls and topics

`cargo dev contracts` writes this page from the declarations of the services; `--check` compares it.
The documents in [contracts/](../contracts/README.md) describe each message and each response.

## Over Kafka

A consumer also publishes its dead letters to `<topic>.<service>.dlq`.
A topic that keeps the newest message of each key is compacted.

| Topic | Published by | Key | Partitions | Retention | Consumed by (group) |
|---|---|---|---|---|---|
";

const CALLS: &str = "
## Over HTTP, between services

Calls use the internal port with a machine token that names the caller.
Other callers get 403.
Transient failures are retried with backoff, and a circuit breaker fails fast while the callee is down.

| Caller | Callee | Operation | Timeout of one attempt | Retries |
|---|---|---|---|---|
";

const OUTSIDE: &str = "
## Outside the platform

Each service fetches the discovery document and the keys of the issuer (`AUTH_ISSUER`) in the background.
A service that calls another one fetches its machine tokens there.

| Caller | Callee | Operation | Timeout of one attempt | Retries |
|---|---|---|---|---|
";

/// Returns the page.
pub fn page(services: &[ServiceEntry]) -> anyhow::Result<String> {
    let mut page = HEAD.to_owned();
    for topic in Topics::built_in()?.topics() {
        write_topic(&mut page, services, topic)?;
    }
    let is_service = |name: &str| services.iter().any(|service| service.name == name);
    page.push_str(CALLS);
    write_calls(&mut page, services, is_service)?;
    for service in services {
        for (method, path) in uncalled(services, service)? {
            writeln!(page, "| the issuer | {} | `{method} {path}` | – | – |", service.name)?;
        }
    }
    page.push_str(OUTSIDE);
    write_calls(&mut page, services, |name| !is_service(name))?;
    for service in services {
        for (method, path) in contract(service)?.operations_of("signature") {
            writeln!(page, "| LiveKit, with a signature | {} | `{method} {path}` | – | – |", service.name)?;
        }
    }
    Ok(page)
}

fn write_topic(page: &mut String, services: &[ServiceEntry], topic: &Topic) -> anyhow::Result<()> {
    let publisher =
        services.iter().find(|service| service.events.iter().any(|event| event.topic == topic.name));
    let publisher = publisher.map_or("outside the platform", |service| service.name);
    let subscriptions = services
        .iter()
        .flat_map(|service| service.consumers.iter().map(move |subscription| (service.name, subscription)));
    let consumers = subscriptions.filter(|(_, subscription)| subscription.topics.contains(&&*topic.name));
    let consumers: Vec<_> =
        consumers.map(|(service, subscription)| format!("{service} (`{}`)", subscription.group)).collect();
    let consumers = if consumers.is_empty() { "–".to_owned() } else { consumers.join(", ") };
    let retention =
        topic.retention_days.map_or("newest of each key".to_owned(), |days| format!("{days} days"));
    let Topic { name, key, partitions, .. } = topic;
    Ok(writeln!(page, "| `{name}` | {publisher} | {key} | {partitions} | {retention} | {consumers} |")?)
}

fn write_calls(
    page: &mut String,
    services: &[ServiceEntry],
    is_included: impl Fn(&str) -> bool,
) -> anyhow::Result<()> {
    for service in services {
        for call in service.calls.iter().filter(|call| is_included(call.service)) {
            let (callee, method, path) = (call.service, call.method, call.path);
            let (timeout, retries) = (call.timeout.as_secs(), call.retries);
            writeln!(page, "| {} | {callee} | `{method} {path}` | {timeout} s | {retries} |", service.name)?;
        }
    }
    Ok(())
}

fn contract(service: &ServiceEntry) -> anyhow::Result<Contract> {
    Contract::read(&(service.contracts)()?.openapi).context(service.name)
}

/// Returns the internal operations of a service that no other service calls. Only the issuer calls
/// them.
fn uncalled(services: &[ServiceEntry], service: &ServiceEntry) -> anyhow::Result<Vec<(String, String)>> {
    let mut operations = contract(service)?.operations_of("service");
    let calls: Vec<_> = services
        .iter()
        .flat_map(|service| service.calls)
        .filter(|call| call.service == service.name)
        .collect();
    operations.retain(|(method, path)| !calls.iter().any(|call| call.method == method && call.path == path));
    Ok(operations)
}

#[cfg(test)]
mod tests {
    use super::{PAGE, contract, page, uncalled};
    use crate::services;

    #[test]
    fn page_matches_the_declarations() {
        let written = std::fs::read_to_string(devkit::stack::root().join(PAGE)).unwrap();
        assert!(written == page(&services::all()).unwrap(), "run `cargo dev contracts`");
    }

    #[test]
    fn call_has_a_documented_internal_operation() {
        for caller in services::all() {
            for call in caller.calls {
                let Some(callee) = services::find(call.service) else { continue };
                let operation = (call.method.to_owned(), call.path.to_owned());
                assert!(contract(&callee).unwrap().operations_of("service").contains(&operation), "{call:?}");
            }
        }
    }

    #[test]
    fn internal_operation_is_called_unless_it_is_the_issuers() {
        let services = services::all();
        let uncalled: Vec<_> =
            services.iter().flat_map(|service| uncalled(&services, service).unwrap()).collect();
        assert_eq!(uncalled, [("GET".to_owned(), "/api/v1/internal/users/{user_id}/claims".to_owned())]);
    }
}
