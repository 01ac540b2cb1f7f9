//! The service, as what it is made of.

use ::db::Db;
use ::jobs::Jobs;
use ::web::Listener;
use actix_web::web::Data;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use messaging::{Published, Republished, Subscription};
use runtime::{Env, Process};
use service::Role;

use crate::settings::Settings;
use crate::{consumers, events, http, jobs, waiting};

/// Developers' profiles, their projects and buildings, and the grid of flats that guests see.
pub struct Service;

impl service::Service for Service {
    const NAME: &'static str = "chessboard";
    const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/chessboard");
    const MESSAGES: &'static [(&'static str, &'static str)] =
        &[("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];
    const LISTENERS: &'static [Listener] = &[http::PUBLIC];
    const EVENTS: &'static [Published] = events::ALL;
    const REPUBLISHED: &'static [Republished] = events::REPUBLISHED;
    const CONSUMERS: &'static [Subscription] = consumers::ALL;
    type Settings = Settings;
    type App = App;

    fn settings(env: &mut Env) -> Option<Settings> {
        Settings::read(env)
    }

    fn app(db: Db, settings: Settings) -> anyhow::Result<App> {
        Ok(App { db, settings })
    }

    fn jobs(app: Data<App>, jobs: Jobs) -> Jobs {
        jobs::add(app.into_inner(), jobs)
    }

    fn run(app: Data<App>, role: Role, process: &Process) -> anyhow::Result<()> {
        if role.works() {
            waiting::watch(app.db.clone(), process);
        }
        Ok(())
    }
}

/// What handlers and jobs share.
pub struct App {
    pub db: Db,
    pub settings: Settings,
}
