//! The service, as what it is made of.

use ::db::Db;
use ::web::Listener;
use auth::Actor;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use messaging::{PublishedEvent, Republisher};
use runtime::Env;
use service::RegisteredCommand;

use crate::bootstrap::Bootstrap;
use crate::domain::Baseline;
use crate::events::Companies;
use crate::ops::actor::Acting;
use crate::settings::Settings;
use crate::{events, http};

/// Companies, the people who work for them, and the roles that become permissions in tokens.
pub struct Service;

impl service::Service for Service {
    const NAME: &'static str = "identity";
    const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/identity");
    const MESSAGES: &'static [(&'static str, &'static str)] =
        &[("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];
    const LISTENERS: &'static [Listener] = &[http::PUBLIC, http::INTERNAL];
    const EVENTS: &'static [PublishedEvent] = events::ALL;
    const REPUBLISHED: &'static [Republisher] = &[Republisher::of::<Companies>()];
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

/// What the handlers share.
pub struct App {
    pub db: Db,
    pub baseline: Baseline,
}

impl App {
    /// Whoever is about to change something, as their token has it.
    pub fn acting<'a>(&'a self, actor: &'a Actor) -> Acting<'a> {
        Acting { actor, baseline: &self.baseline, trace_id: runtime::telemetry::trace_id() }
    }
}
