//! The service with its listeners, events, consumers, calls and jobs.

use ::db::Db;
use ::jobs::Jobs;
use ::web::Listener;
use actix_web::web::Data;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use http_client::Call;
use messaging::{PublishedEvent, Republisher, Restorer, Subscription};
use runtime::Env;

use crate::app::App;
use crate::clients::Selections;
use crate::settings::Settings;
use crate::{clients, consumers, events, http, jobs};

/// The service crm: deals from application to completion, their board, and the status override.
pub struct Service;

impl service::Service for Service {
    const NAME: &'static str = "crm";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/crm");
    const MESSAGES: &'static [(&'static str, &'static str)] =
        &[("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];
    const LISTENERS: &'static [Listener] = &[http::PUBLIC];
    const EVENTS: &'static [PublishedEvent] = events::ALL;
    const REPUBLISHED: &'static [Republisher] = events::REPUBLISHED;
    const RESTORED: &'static [Restorer] = events::RESTORED;
    const CONSUMERS: &'static [Subscription] = consumers::ALL;
    const CALLS: &'static [Call] = clients::CALLS;
    type Settings = Settings;
    type App = App;

    fn settings(env: &mut Env) -> Option<Settings> {
        Settings::read(env)
    }

    fn app(db: Db, settings: Settings) -> anyhow::Result<App> {
        Ok(App { db, selections: Selections::new(&settings.selections)?, settings })
    }

    fn jobs(app: Data<App>, jobs: Jobs) -> Jobs {
        jobs::add(app.into_inner(), jobs)
    }
}
