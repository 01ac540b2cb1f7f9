//! The service with its listeners, events and commands.

use ::db::Db;
use ::service::RegisteredCommand;
use ::web::Listener;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use messaging::{PublishedEvent, Republisher, Restorer};
use runtime::Env;

use crate::app::App;
use crate::bootstrap::Bootstrap;
use crate::events::{AccessRevocations, Companies, Employees};
use crate::settings::Settings;
use crate::{events, http, messages};

/// Companies, their employees and the roles that become permissions in tokens.
pub struct Service;

impl ::service::Service for Service {
    const NAME: &'static str = "identity";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/identity");
    const MESSAGES: &'static [(&'static str, &'static str)] = messages::ALL;
    const LISTENERS: &'static [Listener] = &[http::PUBLIC, http::INTERNAL];
    const EVENTS: &'static [PublishedEvent] = events::ALL;
    const REPUBLISHED: &'static [Republisher] = &[
        Republisher::of::<Companies>(),
        Republisher::of::<Employees>(),
        Republisher::of::<AccessRevocations>(),
    ];
    const RESTORED: &'static [Restorer] = &[Restorer::of::<Companies>(), Restorer::of::<Employees>()];
    const COMMANDS: &'static [RegisteredCommand] = &[RegisteredCommand::of::<Bootstrap>()];
    type Settings = Settings;
    type App = App;

    fn settings(env: &mut Env) -> Option<Settings> {
        Settings::read(env)
    }

    fn app(db: Db, settings: Settings) -> anyhow::Result<App> {
        Ok(App { db, baseline: settings.baseline })
    }
}
