//! The services of the platform: names, public paths and entry points.

use std::future::Future;
use std::pin::Pin;

use anyhow::Context;
use devkit::Settings;
use http_client::Call;
use messaging::{PublishedEvent, Subscription};
use runtime::{Env, Process};
use service::{Config, Contracts, Endpoints, Role, Service};
use testkit::issuer::CLIENTS;

type BoxedResult<T> = Pin<Box<dyn Future<Output = anyhow::Result<T>>>>;

/// The parts of a service that the local stack uses.
#[derive(Clone, Copy)]
pub struct ServiceEntry {
    /// Name of the service, its crate, its binary and its schema.
    pub name: &'static str,
    pub about: &'static str,
    /// The public path prefixes of the service.
    pub prefixes: &'static [&'static str],
    /// The variable with the URL of its internal port, `None` without an internal port.
    pub url_variable: Option<&'static str>,
    pub events: &'static [PublishedEvent],
    pub consumers: &'static [Subscription],
    pub calls: &'static [Call],
    pub topics: fn() -> Vec<String>,
    pub contracts: fn() -> anyhow::Result<Contracts>,
    pub migrate: fn(Settings) -> BoxedResult<()>,
    pub start: fn(Settings, Process) -> BoxedResult<Endpoints>,
    /// Runs an operator command with its arguments.
    pub command: fn(Settings, Vec<String>) -> BoxedResult<()>,
}

/// Returns every service in the order of their start: a callee starts before its callers.
pub fn all() -> Vec<ServiceEntry> {
    vec![
        ServiceEntry::of::<identity::Service>(
            "companies, their people and roles",
            // The page of the whole platform. `/docs/<service>` is longer, and has precedence.
            &["/api/identity", "/docs/identity", "/docs", "/openapi.json"],
            Some("IDENTITY_URL"),
        ),
        ServiceEntry::of::<chessboard::Service>(
            "developers, their projects and the grid of flats",
            &["/api/v1/developers", "/api/v1/admin/developers", "/api/v1/public", "/docs/chessboard"],
            None,
        ),
        ServiceEntry::of::<selections::Service>(
            "collections of flats, opened by a public code",
            &["/api/v1/selections", "/api/v1/favorites", "/docs/selections"],
            Some("SELECTIONS_URL"),
        ),
        ServiceEntry::of::<crm::Service>(
            "deals, their board and the override of their status",
            &["/api/platform-manager/crm", "/api/v1/crm", "/docs/crm"],
            None,
        ),
        ServiceEntry::of::<messenger::Service>(
            "chats of deals, and conferences that ring",
            &["/api/messenger", "/docs/messenger"],
            None,
        ),
        ServiceEntry::of::<agent::Service>(
            "what agents do and earn: statistics, commissions, payouts",
            &["/api/v1/my", "/api/platform-manager/agent", "/docs/agent"],
            None,
        ),
        ServiceEntry::of::<news::Service>(
            "posts made of blocks, with selections embedded",
            &["/api/v1/posts", "/docs/news"],
            None,
        ),
    ]
}

/// Returns the service that owns a public path: the one with the longest matching prefix, as the
/// Gateway of a cluster decides.
pub fn owner<'s, T>(services: &'s [T], entry: impl Fn(&T) -> &ServiceEntry, path: &str) -> Option<&'s T> {
    let matching = services.iter().filter_map(|service| Some((entry(service).match_length(path)?, service)));
    matching.max_by_key(|(length, _)| *length).map(|(_, service)| service)
}

pub fn find(name: &str) -> Option<ServiceEntry> {
    all().into_iter().find(|service| service.name == name)
}

/// Returns the topics of all services, each once.
pub fn topics(services: &[ServiceEntry]) -> Vec<String> {
    let mut topics: Vec<_> = services.iter().flat_map(|service| (service.topics)()).collect();
    topics.sort_unstable();
    topics.dedup();
    topics
}

impl ServiceEntry {
    fn of<S: Service>(
        about: &'static str,
        prefixes: &'static [&'static str],
        url_variable: Option<&'static str>,
    ) -> Self {
        Self {
            name: S::NAME,
            about,
            prefixes,
            url_variable,
            events: S::EVENTS,
            consumers: S::CONSUMERS,
            calls: S::CALLS,
            topics: service::topics::<S>,
            contracts: || service::contracts::<S>().with_context(|| S::NAME),
            migrate: |settings| {
                Box::pin(async {
                    service::migrate(&configuration::<S>(settings)?).await.with_context(|| S::NAME)
                })
            },
            start: |settings, process| {
                Box::pin(async move {
                    let config = configuration::<S>(settings)?;
                    service::start(config, Role::Both, &process).await.with_context(|| S::NAME)
                })
            },
            command: |settings, arguments| {
                Box::pin(async {
                    service::run_command(configuration::<S>(settings)?, arguments)
                        .await
                        .with_context(|| S::NAME)
                })
            },
        }
    }

    /// Returns the common settings with the machine client and the database of this service.
    pub fn settings(&self, common: &Settings) -> Settings {
        let mut settings = common.clone();
        if let Some((_, secret)) = CLIENTS.iter().find(|(client, _)| *client == self.name) {
            settings.insert("CLIENT_SECRET", (*secret).to_owned());
        }
        // In production each service has a database of its own.
        if let Some(url) = devkit::variable(&format!("{}_DATABASE_URL", self.name.to_uppercase())) {
            settings.insert("DATABASE_URL", url);
        }
        settings
    }

    /// Returns the length of the longest prefix of the service that matches a public path.
    fn match_length(&self, path: &str) -> Option<usize> {
        let below = |prefix: &&&str| {
            path.strip_prefix(**prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.prefixes.iter().filter(below).map(|prefix| prefix.len()).max()
    }
}

fn configuration<S: Service>(settings: Settings) -> anyhow::Result<Config<S>> {
    let mut env = Env::new(move |name| settings.get(name).cloned().or_else(|| devkit::variable(name)));
    let config = service::configure::<S>(&mut env);
    env.finish(config).with_context(|| S::NAME)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use messaging::topics::{Topic, Topics};
    use serde_json::{Value, json};

    use super::{ServiceEntry, all, owner, topics};

    fn read(yaml: &str) -> Value {
        yaml_serde::from_str(yaml).unwrap()
    }

    fn openapi(service: &ServiceEntry) -> Value {
        read(&(service.contracts)().unwrap().openapi)
    }

    /// Returns the documents of all services and of the external system, whose document is written
    /// by hand.
    fn asyncapis() -> Vec<Value> {
        let outside = devkit::stack::root().join("contracts/outside/chessboard.yaml");
        let outside = read(&std::fs::read_to_string(outside).unwrap());
        all().iter().map(|service| read(&(service.contracts)().unwrap().asyncapi)).chain([outside]).collect()
    }

    /// Returns each operation of a document with its method and path.
    fn operations(openapi: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
        openapi["paths"].as_object().into_iter().flatten().flat_map(|(path, item)| {
            let operations = item.as_object().into_iter().flatten();
            operations.map(move |(method, operation)| (method.as_str(), path.as_str(), operation))
        })
    }

    fn admits(operation: &Value, callers: &Value) -> bool {
        operation["security"].as_array().is_some_and(|security| security.contains(callers))
    }

    /// Returns the members of a schema, with `?` if they may be null.
    fn members(document: &Value, schema: &Value) -> BTreeSet<String> {
        let schema = match schema["$ref"].as_str() {
            Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
            None => schema,
        };
        let required = |name: &str| {
            schema["required"].as_array().into_iter().flatten().any(|required| *required == *name)
        };
        let own = schema["properties"].as_object().into_iter().flatten();
        let own = own.map(|(name, _)| if required(name) { name.clone() } else { format!("{name}?") });
        let parts = schema["allOf"].as_array().into_iter().flatten();
        own.chain(parts.flat_map(|part| members(document, part))).collect()
    }

    /// Returns a section of `docs/spec/events.md`.
    fn events_section(heading: &str) -> String {
        let page = devkit::stack::root().join("docs/spec/events.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, section) = page.split_once(&format!("\n## {heading}\n")).unwrap();
        section.split("\n## ").next().unwrap().to_owned()
    }

    /// Returns the cells of a table's row that begins with a code.
    fn cells(line: &str) -> Option<Vec<&str>> {
        let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
        row.starts_with('`').then(|| row.split(" | ").collect())
    }

    /// Returns the codes of a cell.
    fn codes(cell: &str) -> impl Iterator<Item = &str> {
        cell.split('`').skip(1).step_by(2)
    }

    /// Returns the members of each topic in the specification, with `?` if a member may be null.
    fn specified_members() -> BTreeMap<String, BTreeSet<String>> {
        let (mut publisher, mut members) = (String::new(), BTreeMap::new());
        for line in events_section("6. Payloads").lines() {
            if let Some(heading) = line.strip_prefix("### ") {
                heading.clone_into(&mut publisher);
            }
            let Some(cells) = cells(line) else { continue };
            let (event, payload) =
                (codes(cells[0]).next().unwrap(), codes(cells[cells.len() - 1]).next().unwrap());
            let topic = if event.contains('.') {
                event.to_owned()
            } else {
                format!("platform.{publisher}.{event}.v1")
            };
            members.insert(topic, payload.split(", ").map(str::to_owned).collect());
        }
        members
    }

    /// Returns the consumer groups of each topic in the specification.
    fn specified_groups() -> BTreeMap<String, BTreeSet<String>> {
        let section = events_section("5. Topics");
        let rows = section.lines().filter_map(cells).filter(|cells| !cells[0].contains('<'));
        let groups = rows.map(|cells| {
            let groups = codes(cells[4]).filter(|code| code.contains('.')).flat_map(|group| {
                let others = all().into_iter().filter(|service| !cells[1].contains(service.name));
                match group.strip_prefix("<service>") {
                    Some(end) => others.map(|service| format!("{}{end}", service.name)).collect(),
                    None => vec![group.to_owned()],
                }
            });
            (codes(cells[0]).next().unwrap().to_owned(), groups.collect())
        });
        groups.collect()
    }

    /// RULE-EVT-001: each topic has the members of the specification.
    #[test]
    fn event_has_the_members_of_the_specification() {
        let mut documented = BTreeMap::new();
        for document in asyncapis() {
            for (name, channel) in document["channels"].as_object().unwrap() {
                let topic = channel["address"].as_str().unwrap().to_owned();
                // A stream over HTTP is no topic.
                if topic.starts_with('/') {
                    continue;
                }
                documented.insert(topic, members(&document, &channel["messages"][name]["payload"]));
            }
        }
        assert_eq!(documented, specified_members());
    }

    /// RULE-EVT-001: each topic has the consumers of the specification.
    #[test]
    fn topic_is_read_by_the_groups_of_the_specification() {
        let mut read: BTreeMap<String, BTreeSet<String>> =
            specified_members().into_keys().map(|topic| (topic, BTreeSet::new())).collect();
        for subscription in all().iter().flat_map(|service| service.consumers) {
            for topic in subscription.topics {
                read.entry((*topic).to_owned()).or_default().insert(subscription.group.to_owned());
            }
        }
        assert_eq!(read, specified_groups());
    }

    /// The paths that guests may read.
    const OPEN: [&str; 14] = [
        "/api/v1/posts",
        "/api/v1/posts/feed/atom",
        "/api/v1/posts/{post_id}",
        "/api/v1/public/developers",
        "/api/v1/public/developers/{developer_id}",
        "/api/v1/public/developers/{developer_id}/feed.yrl",
        "/api/v1/public/projects",
        "/api/v1/public/projects/facets",
        "/api/v1/public/projects/{project_id}",
        "/api/v1/public/projects/{project_id}/buildings/{building_id}",
        "/api/v1/public/property-objects",
        "/api/v1/public/property-objects/{property_object_id}",
        "/api/v1/public/property-objects/{property_object_id}/price-history",
        "/api/v1/selections/{selection}",
    ];

    /// RULE-ALL-051: guests only read public operations.
    #[test]
    fn guests_only_read_public_operations() {
        let mut open = BTreeSet::new();
        for document in all().iter().map(openapi) {
            for (method, path, _) in operations(&document).filter(|(.., of)| admits(of, &json!({}))) {
                assert_eq!(method, "get", "{path}");
                open.insert(path.to_owned());
            }
        }
        assert_eq!(open, BTreeSet::from(OPEN.map(str::to_owned)));
    }

    /// RULE-ALL-053, RULE-ALL-054: internal operations are below `/api/v1/internal/`, which the
    /// base URL does not route. Every other operation is below a path of its service. Operations of
    /// the platform's employees are below a path that names the service.
    #[test]
    fn operation_is_in_the_path_family_of_its_service() {
        let services = all();
        for service in &services {
            let document = openapi(service);
            for (_, path, operation) in operations(&document) {
                let owner = owner(&services, |service| service, path).map(|service| service.name);
                if admits(operation, &json!({"service": []})) {
                    assert!(path.starts_with("/api/v1/internal/") && owner.is_none(), "{path}: {owner:?}");
                } else {
                    assert_eq!(owner, Some(service.name), "{path}");
                }
                if let Some(rest) = path.strip_prefix("/api/platform-manager/") {
                    assert_eq!(rest.split('/').next(), Some(service.name), "{path}");
                }
                if path.starts_with("/api/v1/admin/") {
                    assert_eq!(service.name, "chessboard", "{path}");
                }
            }
        }
    }

    /// RULE-ALL-118: `/docs` is the page of the platform, and pages of services are below it.
    #[test]
    fn longest_public_path_decides() {
        let services = all();
        let owner = |path| owner(&services, |service| service, path).map(|service| service.name);
        for path in ["/docs", "/docs/", "/docs/page.js", "/openapi.json", "/docs/identity/"] {
            assert_eq!(owner(path), Some("identity"), "{path}");
        }
        assert_eq!(owner("/docs/crm/openapi.json"), Some("crm"));
        assert_eq!(owner("/api/v1/my/payouts"), Some("agent"));
        assert_eq!(owner("/document"), None);
    }

    /// A paged list has a sort order and a count, a walk has a cursor, and a lookup has a limit.
    #[test]
    fn lists_have_the_same_parameters_and_members() {
        let mut lists = 0;
        for document in all().iter().map(openapi) {
            for (_, path, operation) in operations(&document) {
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let parameter_names: BTreeSet<_> = parameters.filter_map(|of| of["name"].as_str()).collect();
                let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
                let members = members(&document, schema);
                if parameter_names.contains("Page") {
                    assert!(
                        parameter_names.contains("PageSize") && parameter_names.contains("Sort"),
                        "{path}: {parameter_names:?}"
                    );
                    let whole = ["Items", "Page", "PageSize", "TotalCount"].map(str::to_owned);
                    assert_eq!(members, BTreeSet::from(whole), "{path}");
                    lists += 1;
                }
                if parameter_names.contains("Cursor") {
                    assert!(
                        parameter_names.contains("PageSize") && !parameter_names.contains("Page"),
                        "{path}: {parameter_names:?}"
                    );
                    assert!(members.contains("Items") && members.contains("NextCursor"), "{path}");
                    lists += 1;
                }
                if parameter_names.contains("Limit") {
                    assert!(
                        parameter_names.contains("Query") && members.contains("Items"),
                        "{path}: {parameter_names:?}"
                    );
                    lists += 1;
                }
            }
        }
        assert!(lists > 30, "{lists}");
    }

    #[test]
    fn published_topic_is_declared_as_the_services_own() {
        let declared = Topics::built_in().unwrap();
        for service in all() {
            let is_own = |topic: &&Topic| topic.owner == service.name && !topic.name.starts_with("external.");
            let own = declared.topics().iter().filter(is_own);
            let published: BTreeSet<_> = service.events.iter().map(|event| event.topic).collect();
            assert_eq!(own.map(|topic| &*topic.name).collect::<BTreeSet<_>>(), published);
        }
    }

    #[test]
    fn topic_is_named_after_its_service_event_and_version() {
        for service in all() {
            for event in service.events {
                let parts: Vec<_> = event.topic.split('.').collect();
                let [platform, owner, name, version] = parts[..] else { panic!("{}", event.topic) };
                assert_eq!((platform, owner), ("platform", service.name), "{}", event.topic);
                let number = version.strip_prefix('v').map(str::parse::<u32>);
                assert!(!name.is_empty() && matches!(number, Some(Ok(1..))), "{}", event.topic);
            }
        }
    }

    /// Topics of states are compacted for late consumers. Topics of changes have a retention of 14
    /// days.
    #[test]
    fn topic_retention_follows_from_its_name() {
        for topic in Topics::built_in().unwrap().topics() {
            let (name, _version) = topic.name.rsplit_once('.').unwrap();
            let is_state = name.ends_with("-upserted") || name.ends_with("-revoked");
            assert_eq!(topic.retention_days, (!is_state).then_some(14), "{}", topic.name);
        }
    }

    /// `devkit` links no service, so it reads the names and topics from a list and from generated
    /// files.
    #[test]
    fn devkit_has_the_names_and_topics_of_the_services() {
        let mut names: Vec<_> = all().iter().map(|service| service.name).collect();
        names.sort_unstable();
        assert_eq!(names, devkit::SERVICES);
        assert_eq!(devkit::topics::all().unwrap(), topics(&all()), "run `cargo dev contracts`");
    }

    #[test]
    fn used_topics_are_the_declared_topics() {
        let declared = Topics::built_in().unwrap();
        let used: BTreeSet<_> = topics(&all()).into_iter().collect();
        let names: BTreeSet<_> = declared.topics().iter().map(|topic| topic.name.clone()).collect();
        assert_eq!(names.difference(&used).count(), 0, "{names:?} are not all used: {used:?}");
        for name in used.difference(&names) {
            let is_created = all().iter().any(|service| declared.is_created_by(service.name, name));
            assert!(is_created, "{name} is neither declared nor a topic of dead letters");
        }
    }

    /// No compiler and no other test finds a service that one of these files lacks.
    #[test]
    fn files_outside_of_the_crates_have_every_service() {
        let text = |file: &str| std::fs::read_to_string(devkit::stack::root().join(file)).unwrap();
        let compose = read(&text("docker/compose.yaml"));
        let nightly = read(&text(".github/workflows/nightly.yml"));
        let gateway = &compose["services"]["gateway"];
        let checked = gateway["healthcheck"]["test"][1].as_str().unwrap();
        let checked =
            checked.strip_prefix("for service in ").and_then(|rest| rest.split_once(';')).unwrap().0;
        let mutants = nightly["jobs"]["mutants"]["strategy"]["matrix"]["package"].as_array().unwrap();
        let (owners, images) = (text(".github/CODEOWNERS"), text("docker/bake.hcl"));
        for ServiceEntry { name, .. } in all() {
            for container in [name, &format!("{name}-migrate")] {
                assert!(compose["services"][container].is_object(), "{container}");
            }
            assert!(gateway["depends_on"][name].is_object(), "{name}");
            assert!(checked.split(' ').any(|checked| checked == name), "{name}");
            assert!(mutants.contains(&json!(name)), "{name}");
            assert!(owners.contains(&format!("\n/services/{name}/ ")), "{name}");
            assert!(images.contains(&format!("\"{name}\"")), "{name}");
        }
    }

    /// RULE-ALL-053: the gateway of the containers forwards the same paths as the base URL.
    #[test]
    fn gateway_of_the_containers_has_the_public_paths() {
        let path = devkit::stack::root().join("docker/compose/gateway.conf");
        let configuration = std::fs::read_to_string(path).unwrap();
        let forwarded: Vec<_> =
            configuration.lines().map(str::trim).filter(|line| line.starts_with("\"~")).collect();
        // The first match decides. `/docs` of identity is last, since longer paths are below it.
        let expected = all()
            .into_iter()
            .rev()
            .map(|service| format!("\"~^({})(/|$)\" {};", service.prefixes.join("|"), service.name));
        assert_eq!(forwarded, expected.collect::<Vec<_>>());
    }
}
