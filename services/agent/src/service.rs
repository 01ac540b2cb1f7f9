//! The service with its listener, events, consumers and jobs.

use std::any::Any;
use std::sync::Arc;

use ::db::Db;
use ::jobs::Jobs;
use ::web::Listener;
use actix_web::web::Data;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use messaging::{PublishedEvent, Subscription};
use runtime::{Env, Process};
use service::Role;

use crate::app::App;
use crate::settings::Settings;
use crate::{consumers, events, http, jobs};

/// The service agent: statistics, commissions and payouts of agents.
pub struct Service;

impl service::Service for Service {
    const NAME: &'static str = "agent";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/agent");
    const MESSAGES: &'static [(&'static str, &'static str)] =
        &[("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];
    const LISTENERS: &'static [Listener] = &[http::PUBLIC];
    const EVENTS: &'static [PublishedEvent] = events::ALL;
    const CONSUMERS: &'static [Subscription] = consumers::ALL;
    type Settings = Settings;
    type App = App;

    fn settings(env: &mut Env) -> Option<Settings> {
        Settings::read(env)
    }

    fn handler_settings(settings: &Settings) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(Arc::new(settings.approval_limit))
    }

    fn app(db: Db, settings: Settings) -> anyhow::Result<App> {
        Ok(App { db, settings })
    }

    fn jobs(app: Data<App>, jobs: Jobs) -> Jobs {
        jobs::add(app.into_inner(), jobs)
    }

    fn run(app: Data<App>, role: Role, process: &Process) -> anyhow::Result<()> {
        if role.has_background_tasks() {
            jobs::spawn_gauges(app, process);
        }
        Ok(())
    }
}
