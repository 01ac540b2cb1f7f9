//! What a service is made of. It declares what is its own, as a [`Service`]; how that is configured, migrated,
//! run and operated is the same for all, and stands here.

mod command;
mod composition;
mod config;
mod error;
pub mod list;
mod process;

use ::web::Listener;
use actix_web::web;
use db::Db;
use diesel_migrations::EmbeddedMigrations;
use http_client::Call;
use jobs::Jobs;
use messaging::{Published, Republished, Subscription};
use runtime::{Env, Process};

pub use command::{Operate, OwnCommand};
pub use composition::{Contracts, Endpoints, command, contracts, migrate, operate, start, topics};
pub use config::{Config, configure};
pub use error::Error;
pub use process::main;

/// What is a service's own.
pub trait Service: 'static {
    /// Also its crate, its binary and its schema.
    const NAME: &'static str;
    /// Put before the codes that all areas have, such as `SELECTIONS_`; empty in most areas.
    const CODE_PREFIX: &'static str = "";
    /// Its schema; the tables of the libraries come by themselves.
    const MIGRATIONS: EmbeddedMigrations;
    /// Its words in every language: pairs of a language and the text of its Fluent file.
    const MESSAGES: &'static [(&'static str, &'static str)] = &[];
    /// Its operations, by who calls them.
    const LISTENERS: &'static [Listener] = &[];
    /// How many connections callers may keep open to each of them at once.
    const CONNECTIONS: usize = ::web::CONNECTIONS;
    /// What it tells.
    const EVENTS: &'static [Published] = &[];
    /// What it can tell anew.
    const REPUBLISHED: &'static [Republished] = &[];
    /// What it takes from others.
    const CONSUMERS: &'static [Subscription] = &[];
    /// What it asks of others.
    const CALLS: &'static [Call] = &[];
    /// What its operators can do beside what all services' can.
    const COMMANDS: &'static [OwnCommand] = &[];
    /// What it reads from the environment beside what all services read.
    type Settings: Send + 'static;
    /// What its handlers, jobs and further parts share.
    type App: Send + Sync + 'static;

    /// Reads the settings; `None` after a mistake, which [`Env`] remembers.
    fn settings(env: &mut Env) -> Option<Self::Settings>;

    /// # Errors
    /// Settings that cannot be used.
    fn app(db: Db, settings: Self::Settings) -> anyhow::Result<Self::App>;

    /// Adds what is done beside requests and messages, by replicas that work.
    fn jobs(app: web::Data<Self::App>, jobs: Jobs) -> Jobs {
        let _ = app;
        jobs
    }

    /// Starts further parts of a replica in this role.
    ///
    /// # Errors
    /// What keeps it from starting.
    fn run(app: web::Data<Self::App>, role: Role, process: &Process) -> anyhow::Result<()> {
        let _ = (app, role, process);
        Ok(())
    }
}

/// What a running replica does. Ops scale the two apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Answers HTTP.
    Serve,
    /// Relays the outbox, consumes the bus, runs jobs.
    Work,
    /// Both: one small process.
    Both,
}

impl Role {
    pub fn serves(self) -> bool {
        matches!(self, Self::Serve | Self::Both)
    }

    pub fn works(self) -> bool {
        matches!(self, Self::Work | Self::Both)
    }
}
