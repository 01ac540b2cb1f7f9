//! The composition root: creates and connects the parts of a service.

use std::net::SocketAddr;

use ::web::{Callers, Server, ServiceInfo};
use actix_web::web;
use anyhow::Context;
use auth::{INTERNAL_AUDIENCE, Keys, Revocations, USER_AUDIENCE, Verifier};
use clap::ArgMatches;
use db::{Db, PipelinedConn, ReadReplica};
use jobs::Jobs;
use messaging::{AsyncApi, Bus};
use runtime::{Phase, Process};

use crate::access::{self, Updater};
use crate::command::{self, RegisteredCommand};
use crate::config::Config;
use crate::http_stream;
use crate::idempotency;
use crate::reads::Reads;
use crate::search;
use crate::service::{Role, Service};

/// The addresses of a started service. `None` if its role has no such listener.
#[derive(Clone, Copy, Debug)]
pub struct Endpoints {
    pub public: Option<SocketAddr>,
    pub internal: Option<SocketAddr>,
    pub admin: SocketAddr,
}

/// The contracts of a service as YAML documents.
pub struct Contracts {
    pub openapi: String,
    pub asyncapi: String,
}

/// Applies the pending migrations of `S` and creates its missing topics. Several replicas may
/// call this function at the same time.
///
/// # Errors
/// If the database or the broker is unavailable, or if a migration fails.
pub async fn migrate<S: Service>(config: &Config<S>) -> anyhow::Result<()> {
    let common = [
        messaging::MIGRATIONS,
        jobs::MIGRATIONS,
        search::MIGRATIONS,
        access::MIGRATIONS,
        idempotency::MIGRATIONS,
    ];
    let sources = common.into_iter().chain([S::MIGRATIONS]);
    db::migrate(&config.database, sources).await?;
    config.messaging.create_topics(S::NAME, &topics::<S>()).await
}

/// Starts the parts of `role` on `process`. Returns when all listeners accept connections.
///
/// # Errors
/// If a setting is not usable or an address is in use.
pub async fn start<S: Service>(
    config: Config<S>,
    role: Role,
    process: &Process,
) -> anyhow::Result<Endpoints> {
    let db = open_db(&config)?;
    db.register_checks(process);
    let info = service_info::<S>(&config.web.default_language)?;
    let admission_db = db.clone();
    let server = Server::new(process, config.web.clone(), info.clone());
    let server =
        server.shed_load_while(move || admission_db.is_overloaded()).max_connections(S::MAX_CONNECTIONS);
    let app = web::Data::new(S::app(db.clone(), config.settings)?);
    let (mut public, mut internal) = (None, None);
    if let Some(auth) = config.auth.filter(|_| role.has_http()) {
        let revocations = if access::is_subscribed(S::CONSUMERS) {
            Updater::new(db.clone(), auth.revocation_window(), process.metrics()).start(process).await
        } else {
            Revocations::none()
        };
        let replica =
            config.replica.map(|replica| ReadReplica::start(replica, db.clone(), process)).transpose()?;
        let keys = Keys::new(auth)?;
        process.spawn(Phase::Work, "issuer keys", |stopping| keys.clone().refresh(stopping));
        for listener in S::LISTENERS {
            let (audience, address) = match listener.callers {
                Callers::Users => (USER_AUDIENCE, Some(config.web.public)),
                Callers::Services => (INTERNAL_AUDIENCE, config.internal),
            };
            let Some(address) = address else { continue };
            let verifier = web::Data::new(Verifier::new(keys.clone(), audience, revocations.clone()));
            let (app, messages) = (app.clone(), info.messages.clone());
            let (database, pool, replica) = (config.database.clone(), db.clone(), replica.clone());
            let revocations = web::Data::new(revocations.clone());
            let address = server.listen(*listener, address, move |worker| {
                // Each worker thread has a connection of its own for lookups.
                let lookups = web::Data::new(PipelinedConn::new(&database, pool.clone()));
                let reads = Reads {
                    lookups: lookups.clone().into_inner(),
                    primary: pool.clone(),
                    replica: replica.as_ref().map(ReadReplica::reads),
                };
                worker.app_data(web::Data::new(reads));
                worker.app_data(app.clone()).app_data(messages.clone());
                worker.app_data(verifier.clone()).app_data(revocations.clone()).app_data(lookups);
            })?;
            match listener.callers {
                Callers::Users => public = Some(address),
                Callers::Services => internal = Some(address),
            }
        }
    }
    if role.has_background_tasks() {
        idempotency::add_job(S::jobs(app.clone(), Jobs::new(db.clone())), db.clone()).start(process);
        bus::<S>(db, config.messaging).start(process, topics::<S>())?;
    }
    S::run(app, role, process)?;
    process.report_readiness(role.name());
    // The admin port is last, so that a replica that reports readiness already listens.
    Ok(Endpoints { public, internal, admin: server.listen_admin()? })
}

/// Runs one of the commands that all services have. The command prints to standard output.
///
/// # Errors
/// If the database is unavailable or the command fails.
pub async fn run_messaging_command<S: Service>(
    config: Config<S>,
    command: messaging::MessagingCommand,
) -> anyhow::Result<()> {
    let db = open_db(&config)?;
    if matches!(command, messaging::MessagingCommand::Restored { dry_run: false, .. }) {
        S::restored(&db).await?;
    }
    let bus = bus::<S>(db, config.messaging);
    command.execute(&bus, S::EVENTS, S::REPUBLISHED, S::RESTORED).await
}

/// Runs a command that the service adds. `arguments` are the command line without the binary.
///
/// # Errors
/// If the command does not exist, its arguments are invalid or it fails.
pub async fn run_command<S: Service>(config: Config<S>, arguments: Vec<String>) -> anyhow::Result<()> {
    let commands = S::COMMANDS.iter().map(|command| (command.define)());
    let parser = clap::Command::new(S::NAME).no_binary_name(true).subcommands(commands);
    let found = command::find(S::COMMANDS, &parser.try_get_matches_from(arguments)?);
    let (command, arguments) = found.context("unknown command")?;
    run_registered(config, command, arguments).await
}

pub(crate) async fn run_registered<S: Service>(
    config: Config<S>,
    command: RegisteredCommand,
    arguments: ArgMatches,
) -> anyhow::Result<()> {
    (command.execute)(Db::new(&config.database)?, arguments).await
}

/// Returns the topics that `S` publishes to or consumes, and its dead-letter topics, without
/// duplicates.
pub fn topics<S: Service>() -> Vec<String> {
    let published = S::EVENTS.iter().map(|event| event.topic.to_owned());
    let consumed = S::CONSUMERS.iter().flat_map(|consumer| consumer.topics);
    let consumed = consumed
        .flat_map(|topic| [(*topic).to_owned(), messaging::topics::dead_letter_topic(topic, S::NAME)]);
    let mut topics: Vec<_> = published.chain(consumed).collect();
    topics.sort_unstable();
    topics.dedup();
    topics
}

/// Returns the documents for the folder `contracts/`.
///
/// # Errors
/// If a document cannot be encoded.
pub fn contracts<S: Service>() -> anyhow::Result<Contracts> {
    let mut api = ::web::describe(&service_info::<S>("en")?, S::LISTENERS);
    ::web::add_sign_in(&mut api);
    let streams = http_stream::streams(&serde_json::to_value(&api)?);
    let events = AsyncApi::of(S::NAME, S::VERSION, S::EVENTS).with_streams(streams);
    Ok(Contracts { openapi: ::web::to_yaml(&api)?, asyncapi: events.to_yaml()? })
}

fn service_info<S: Service>(default_language: &str) -> anyhow::Result<ServiceInfo> {
    ServiceInfo::new(S::NAME, S::CODE_PREFIX, S::VERSION, S::MESSAGES, default_language)
}

fn open_db<S: Service>(config: &Config<S>) -> anyhow::Result<Db> {
    let db = Db::new(&config.database)?.with_language(&config.web.default_language);
    Ok(db.with_shared(S::handler_settings(&config.settings)))
}

fn bus<S: Service>(db: Db, config: messaging::Config) -> Bus {
    Bus::new(S::NAME, db, config, S::CONSUMERS)
}
