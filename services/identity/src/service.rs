//! The service with its listeners, events and commands.

use ::db::Db;
use ::jobs::Jobs;
use ::service::RegisteredCommand;
use ::web::Listener;
use actix_web::web::Data;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use http_client::Call;
use messaging::{PublishedEvent, Republisher, Restorer};
use runtime::Env;

use crate::app::App;
use crate::bootstrap::Bootstrap;
use crate::clients::IssuerClients;
use crate::settings::Settings;
use crate::update_clients::UpdateClients;
use crate::{clients, events, http, jobs};

/// Companies, their employees and the roles that become permissions in tokens.
pub struct Service;

impl ::service::Service for Service {
    const NAME: &'static str = "identity";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/identity");
    const MESSAGES: &'static [(&'static str, &'static str)] =
        &[("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];
    const LISTENERS: &'static [Listener] = &[http::PUBLIC, http::INTERNAL];
    const EVENTS: &'static [PublishedEvent] = events::ALL;
    const REPUBLISHED: &'static [Republisher] = events::REPUBLISHED;
    const RESTORED: &'static [Restorer] = events::RESTORED;
    const COMMANDS: &'static [RegisteredCommand] =
        &[RegisteredCommand::of::<Bootstrap>(), RegisteredCommand::of::<UpdateClients>()];
    const CALLS: &'static [Call] = clients::CALLS;
    type Settings = Settings;
    type App = App;

    fn settings(env: &mut Env) -> Option<Settings> {
        Settings::read(env)
    }

    fn app(db: Db, settings: Settings) -> anyhow::Result<App> {
        let issuer_clients = settings.issuer_clients.as_ref().map(IssuerClients::new).transpose()?;
        Ok(App { db, baseline: settings.baseline, issuer_clients })
    }

    fn jobs(app: Data<App>, jobs: Jobs) -> Jobs {
        jobs::add(app.into_inner(), jobs)
    }
}
