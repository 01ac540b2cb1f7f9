//! The declaration of a service.

use std::any::Any;
use std::sync::Arc;

use ::web::Listener;
use actix_web::web;
use db::Db;
use diesel_migrations::EmbeddedMigrations;
use http_client::Call;
use jobs::Jobs;
use messaging::{PublishedEvent, Republisher, Restorer, Subscription};
use runtime::{Env, Process};

use crate::command::RegisteredCommand;

/// The declaration of a service: its name, its tables and all other parts that differ between
/// services.
pub trait Service: 'static {
    /// The name of the service, its crate, its binary and its schema.
    const NAME: &'static str;
    /// The version of the service's crate, as its API documents show it.
    const VERSION: &'static str;
    /// The prefix of the common error codes, such as `SELECTIONS_`. Empty in most services.
    const CODE_PREFIX: &'static str = "";
    /// The service's own tables. The tables of the libraries are added.
    const MIGRATIONS: EmbeddedMigrations;
    /// The texts of the service: pairs of a language and the content of its Fluent file.
    const MESSAGES: &'static [(&'static str, &'static str)] = &[];
    /// The HTTP operations, grouped by their callers.
    const LISTENERS: &'static [Listener] = &[];
    /// The maximum number of open connections of each listener.
    const MAX_CONNECTIONS: usize = ::web::DEFAULT_MAX_CONNECTIONS;
    /// True if handlers use [`Reads`](crate::Reads), so that guests may read from a read replica of
    /// the database.
    const READS_FROM_REPLICA: bool = false;
    /// The published events.
    const EVENTS: &'static [PublishedEvent] = &[];
    /// The aggregates whose current state can be republished.
    const REPUBLISHED: &'static [Republisher] = &[];
    /// The aggregates whose consumers are realigned after a restore of the database.
    const RESTORED: &'static [Restorer] = &[];
    /// The subscriptions to events of other services.
    const CONSUMERS: &'static [Subscription] = &[];
    /// The operations of other services that the service calls.
    const CALLS: &'static [Call] = &[];
    /// The commands for operators in addition to the common ones.
    const COMMANDS: &'static [RegisteredCommand] = &[];
    /// The settings in addition to the common ones.
    type Settings: Send + 'static;
    /// The state that handlers, jobs and other parts share.
    type App: Send + Sync + 'static;

    /// Reads the settings. Returns `None` after an error, which [`Env`] collects.
    fn settings(env: &mut Env) -> Option<Self::Settings>;

    /// Returns the settings that handlers of messages read with [`db::Tx::shared`].
    fn handler_settings(settings: &Self::Settings) -> Option<Arc<dyn Any + Send + Sync>> {
        let _ = settings;
        None
    }

    /// Prepares the running replicas for a database that was restored. The command `restored` calls
    /// this first, since the restore may have kept the history of the database.
    fn restored(db: &Db) -> impl Future<Output = Result<(), db::Error>> + Send {
        let _ = db;
        async { Ok(()) }
    }

    /// Creates the shared state.
    ///
    /// # Errors
    /// If a setting is not usable.
    fn app(db: Db, settings: Self::Settings) -> anyhow::Result<Self::App>;

    /// Adds the background jobs, which replicas of the role `work` run.
    fn jobs(app: web::Data<Self::App>, jobs: Jobs) -> Jobs {
        let _ = app;
        jobs
    }

    /// Starts further parts of a replica in `role`.
    ///
    /// # Errors
    /// If a part cannot start.
    fn run(app: web::Data<Self::App>, role: Role, process: &Process) -> anyhow::Result<()> {
        let _ = (app, role, process);
        Ok(())
    }
}

/// The role of a replica. Each role is scaled separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Answers HTTP requests.
    Serve,
    /// Runs the relay, the consumers and the jobs.
    Work,
    /// Both roles in one process.
    Both,
}

impl Role {
    pub fn has_http(self) -> bool {
        matches!(self, Self::Serve | Self::Both)
    }

    pub fn has_background_tasks(self) -> bool {
        matches!(self, Self::Work | Self::Both)
    }

    /// Returns the name of the role in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Work => "work",
            Self::Both => "both",
        }
    }
}
