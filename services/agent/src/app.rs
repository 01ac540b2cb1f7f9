//! The service, as what it is made of.

use ::db::Db;
use ::jobs::Jobs;
use ::web::Listener;
use actix_web::web::Data;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use messaging::{Published, Subscription};
use prometheus_client::metrics::gauge::Gauge;
use runtime::{Env, Process};
use service::Role;

use crate::settings::Settings;
use crate::{consumers, events, http, jobs};

/// What agents do and earn.
pub struct Service;

impl service::Service for Service {
    const NAME: &'static str = "agent";
    const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/agent");
    const MESSAGES: &'static [(&'static str, &'static str)] =
        &[("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];
    const LISTENERS: &'static [Listener] = &[http::PUBLIC];
    const EVENTS: &'static [Published] = events::ALL;
    const CONSUMERS: &'static [Subscription] = consumers::ALL;
    type Settings = Settings;
    type App = App;

    fn settings(env: &mut Env) -> Option<Settings> {
        Settings::read(env)
    }

    fn app(db: Db, settings: Settings) -> anyhow::Result<App> {
        Ok(App { db, settings, mismatches: Gauge::default() })
    }

    fn jobs(app: Data<App>, jobs: Jobs) -> Jobs {
        jobs::add(app.into_inner(), jobs)
    }

    fn run(app: Data<App>, role: Role, process: &Process) -> anyhow::Result<()> {
        if role.works() {
            jobs::register(&app.mismatches, process);
            jobs::watch(app, process);
        }
        Ok(())
    }
}

/// What handlers and jobs share.
pub struct App {
    pub db: Db,
    pub settings: Settings,
    /// What the last audit of the ledger has found.
    pub mismatches: Gauge,
}
