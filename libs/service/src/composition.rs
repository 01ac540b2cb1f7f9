//! The composition root: what a service is made of, in each of its roles.

use std::net::SocketAddr;

use ::web::{Area, Callers, Server};
use actix_web::web;
use anyhow::Context;
use auth::{Keys, PLATFORM, PLATFORM_INTERNAL, Verifier};
use clap::ArgMatches;
use db::{Db, Lookups};
use jobs::Jobs;
use messaging::{AsyncApi, Bus};
use runtime::{Phase, Process};

use crate::command::told;
use crate::{Config, OwnCommand, Role, Service};

/// Where a started service listens. `None`: not in this role.
#[derive(Clone, Copy, Debug)]
pub struct Endpoints {
    pub public: Option<SocketAddr>,
    pub internal: Option<SocketAddr>,
    pub admin: SocketAddr,
}

/// What a service promises, as YAML documents.
pub struct Contracts {
    pub openapi: String,
    pub asyncapi: String,
}

/// Brings the schema of `S` up to date and makes its topics. Safe to run from several replicas at once.
///
/// # Errors
/// A database that is away, or a migration that fails.
pub async fn migrate<S: Service>(config: &Config<S>) -> anyhow::Result<()> {
    let sources = [messaging::MIGRATIONS, jobs::MIGRATIONS, crate::list::MIGRATIONS, S::MIGRATIONS];
    db::migrate(&config.database, sources).await?;
    config.messaging.make_topics(S::NAME, &topics::<S>()).await
}

/// Starts the parts of the role on `process` and answers once they listen.
///
/// # Errors
/// A configuration that cannot be used, or an address that cannot be listened on.
pub async fn start<S: Service>(
    config: Config<S>,
    role: Role,
    process: &Process,
) -> anyhow::Result<Endpoints> {
    let db = Db::new(&config.database)?.speaking(&config.web.default_language);
    db.require(process);
    let area = area::<S>(&config.web.default_language)?;
    let queue = db.clone();
    let server = Server::new(process, config.web.clone(), area.clone());
    let server = server.shed_while(move || queue.is_crowded()).connections(S::CONNECTIONS);
    let app = web::Data::new(S::app(db.clone(), config.settings)?);
    let (mut public, mut internal) = (None, None);
    if let Some(auth) = config.auth.filter(|_| role.serves()) {
        let keys = Keys::new(auth)?;
        process.spawn(Phase::Work, "issuer keys", |ending| keys.clone().refresh(ending));
        for listener in S::LISTENERS {
            let (audience, address) = match listener.callers {
                Callers::People => (PLATFORM, Some(config.web.public)),
                Callers::Services => (PLATFORM_INTERNAL, config.internal),
            };
            let Some(address) = address else { continue };
            let verifier = web::Data::new(Verifier::new(keys.clone(), audience));
            let (app, messages, database) = (app.clone(), area.messages.clone(), config.database.clone());
            let address = server.listen(*listener, address, move |worker| {
                // Each thread looks things up on a connection of its own.
                let lookups = web::Data::new(Lookups::new(&database));
                worker.app_data(app.clone()).app_data(messages.clone());
                worker.app_data(verifier.clone()).app_data(lookups);
            })?;
            match listener.callers {
                Callers::People => public = Some(address),
                Callers::Services => internal = Some(address),
            }
        }
    }
    if role.works() {
        S::jobs(app.clone(), Jobs::new(db.clone())).start(process);
        bus::<S>(db, config.messaging).start(process, topics::<S>())?;
    }
    S::run(app, role, process)?;
    // Last: who asks whether the service is ready finds it listening.
    Ok(Endpoints { public, internal, admin: server.admin()? })
}

/// Does an operator's command; what it has to say goes to standard output.
///
/// # Errors
/// A database that is away, and what the command says of itself.
pub async fn operate<S: Service>(config: Config<S>, operation: messaging::Operation) -> anyhow::Result<()> {
    let db = Db::new(&config.database)?.speaking(&config.web.default_language);
    bus::<S>(db, config.messaging).operate(operation, S::REPUBLISHED).await
}

/// Does a command of the service's own, told with its arguments as one would on its command line.
///
/// # Errors
/// When there is no such command, when it takes no such arguments, and what the command says of itself.
pub async fn command<S: Service>(config: Config<S>, arguments: Vec<String>) -> anyhow::Result<()> {
    let own = S::COMMANDS.iter().map(|own| (own.define)());
    let parser = clap::Command::new(S::NAME).no_binary_name(true).subcommands(own);
    let told = told::<S>(&parser.try_get_matches_from(arguments)?);
    let (own, arguments) = told.context("there is no such command")?;
    execute_own(config, own, arguments).await
}

/// Does a command of the service's own.
pub(crate) async fn execute_own<S: Service>(
    config: Config<S>,
    command: OwnCommand,
    arguments: ArgMatches,
) -> anyhow::Result<()> {
    (command.execute)(Db::new(&config.database)?, arguments).await
}

/// Every topic that `S` publishes to, consumes, or puts dead letters into, once: it may consume its own.
pub fn topics<S: Service>() -> Vec<String> {
    let published = S::EVENTS.iter().map(|event| event.topic.to_owned());
    let consumed = S::CONSUMERS.iter().flat_map(|consumer| consumer.topics);
    let consumed =
        consumed.flat_map(|topic| [(*topic).to_owned(), messaging::topics::dead_letters(topic, S::NAME)]);
    let mut topics: Vec<_> = published.chain(consumed).collect();
    topics.sort_unstable();
    topics.dedup();
    topics
}

/// The documents that `contracts/` holds.
///
/// # Errors
/// When they cannot be written.
pub fn contracts<S: Service>() -> anyhow::Result<Contracts> {
    let api = ::web::describe(&area::<S>("en")?, S::LISTENERS);
    Ok(Contracts { openapi: ::web::to_yaml(&api)?, asyncapi: AsyncApi::of(S::NAME, S::EVENTS).to_yaml()? })
}

fn area<S: Service>(default_language: &str) -> anyhow::Result<Area> {
    Area::new(S::NAME, S::CODE_PREFIX, S::MESSAGES, default_language)
}

fn bus<S: Service>(db: Db, config: messaging::Config) -> Bus {
    Bus::new(S::NAME, db, config, S::CONSUMERS)
}
