//! The services of the platform: what each is called, which paths are its, how it is brought up.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use anyhow::Context;
use http_client::Call;
use messaging::{Published, Subscription};
use runtime::{Env, Process};
use service::{Config, Contracts, Endpoints, Role, Service};
use testkit::issuer::CLIENTS;

/// Variables of a service, laid over those of this process.
pub(crate) type Settings = BTreeMap<&'static str, String>;

type Answer<T> = Pin<Box<dyn Future<Output = anyhow::Result<T>>>>;

/// One service as the local stack sees it.
#[derive(Clone, Copy)]
pub(crate) struct Area {
    /// Also its crate, its binary and its schema.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// The public paths that are forwarded to it, each with all below.
    pub(crate) prefixes: &'static [&'static str],
    /// The variable that tells others where its internal port is; `None` where it has none.
    pub(crate) url_variable: Option<&'static str>,
    pub(crate) events: &'static [Published],
    pub(crate) consumers: &'static [Subscription],
    pub(crate) calls: &'static [Call],
    pub(crate) topics: fn() -> Vec<String>,
    pub(crate) contracts: fn() -> anyhow::Result<Contracts>,
    pub(crate) migrate: fn(Settings) -> Answer<()>,
    pub(crate) start: fn(Settings, Process) -> Answer<Endpoints>,
    /// A command of its operators, with its arguments.
    pub(crate) command: fn(Settings, Vec<String>) -> Answer<()>,
}

/// Every area, in the order in which they start: one that is called before those that call it.
pub(crate) fn all() -> Vec<Area> {
    vec![
        Area::of::<identity::Service>(
            "companies, their people and roles",
            &["/api/identity", "/docs/identity"],
            Some("IDENTITY_URL"),
        ),
        Area::of::<chessboard::Service>(
            "developers, their projects and the grid of flats",
            &["/api/v1/developers", "/api/v1/admin/developers", "/api/v1/public", "/docs/chessboard"],
            None,
        ),
        Area::of::<selections::Service>(
            "collections of flats, opened by a public code",
            &["/api/v1/selections", "/api/v1/favorites", "/docs/selections"],
            Some("SELECTIONS_URL"),
        ),
        Area::of::<crm::Service>(
            "deals, their board and the override of their status",
            &["/api/platform-manager/crm", "/api/v1/crm", "/docs/crm"],
            None,
        ),
        Area::of::<messenger::Service>(
            "chats of deals, and conferences that ring",
            &["/api/messenger", "/docs/messenger"],
            None,
        ),
        Area::of::<agent::Service>(
            "what agents do and earn: statistics, commissions, payouts",
            &["/api/v1/my", "/api/platform-manager/agent", "/docs/agent"],
            None,
        ),
        Area::of::<news::Service>(
            "posts made of blocks, with selections embedded",
            &["/api/v1/posts", "/docs/news"],
            None,
        ),
    ]
}

pub(crate) fn find(name: &str) -> Option<Area> {
    all().into_iter().find(|area| area.name == name)
}

/// The topics of every area, once each.
pub(crate) fn topics(areas: &[Area]) -> Vec<String> {
    let mut topics: Vec<_> = areas.iter().flat_map(|area| (area.topics)()).collect();
    topics.sort_unstable();
    topics.dedup();
    topics
}

impl Area {
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
                    service::command(configuration::<S>(settings)?, arguments).await.with_context(|| S::NAME)
                })
            },
        }
    }

    /// What the others get, and who this one is to them.
    pub(crate) fn settings(&self, common: &Settings) -> Settings {
        let mut settings = common.clone();
        if let Some((_, secret)) = CLIENTS.iter().find(|(client, _)| *client == self.name) {
            settings.insert("CLIENT_SECRET", (*secret).to_owned());
        }
        // One of its own, as it has in production.
        if let Some(url) = crate::variable(&format!("{}_DATABASE_URL", self.name.to_uppercase())) {
            settings.insert("DATABASE_URL", url);
        }
        settings
    }

    /// Whether a public path is this area's.
    pub(crate) fn owns(&self, path: &str) -> bool {
        let below = |prefix: &&str| {
            path.strip_prefix(*prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.prefixes.iter().any(below)
    }
}

fn configuration<S: Service>(settings: Settings) -> anyhow::Result<Config<S>> {
    let mut env = Env::new(move |name| settings.get(name).cloned().or_else(|| crate::variable(name)));
    let config = service::configure::<S>(&mut env);
    env.finish(config).with_context(|| S::NAME)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use messaging::topics::{Topic, Topics};

    use super::{all, topics};

    #[test]
    fn what_a_service_publishes_is_declared_as_its_own() {
        let declared = Topics::built_in().unwrap();
        for area in all() {
            let is_own = |topic: &&Topic| topic.owner == area.name && !topic.name.starts_with("external.");
            let own = declared.topics().iter().filter(is_own);
            let published: BTreeSet<_> = area.events.iter().map(|event| event.topic).collect();
            assert_eq!(own.map(|topic| &*topic.name).collect::<BTreeSet<_>>(), published);
        }
    }

    #[test]
    fn a_topic_is_named_after_its_area_its_event_and_its_version() {
        for area in all() {
            for event in area.events {
                let parts: Vec<_> = event.topic.split('.').collect();
                let [platform, owner, name, version] = parts[..] else { panic!("{}", event.topic) };
                assert_eq!((platform, owner), ("platform", area.name), "{}", event.topic);
                assert!(!name.is_empty() && version == "v1", "{}", event.topic);
            }
        }
    }

    /// What tells of a state is kept for who comes late; what tells of a change is kept 14 days.
    #[test]
    fn what_a_topic_keeps_follows_from_its_name() {
        for topic in Topics::built_in().unwrap().topics() {
            let is_state = topic.name.ends_with("-upserted.v1");
            assert_eq!(topic.retention_days, (!is_state).then_some(14), "{}", topic.name);
        }
    }

    #[test]
    fn every_topic_that_is_used_is_declared_and_no_other() {
        let declared = Topics::built_in().unwrap();
        let used: BTreeSet<_> = topics(&all()).into_iter().collect();
        let names: BTreeSet<_> = declared.topics().iter().map(|topic| topic.name.clone()).collect();
        assert_eq!(names.difference(&used).count(), 0, "{names:?} are not all used: {used:?}");
        for name in used.difference(&names) {
            let made = all().iter().any(|area| declared.is_made_by(area.name, name));
            assert!(made, "{name} is neither declared nor anybody's dead letters");
        }
    }
}
