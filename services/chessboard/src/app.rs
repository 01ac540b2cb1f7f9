//! The service, as what it is made of.

use ::db::Db;
use ::jobs::Jobs;
use ::web::{ClientAddress, Listener, Problem, RateLimit};
use actix_web::web::Data;
use auth::Guest;
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
        let guest_reads = RateLimit::per_minute(settings.guest_reads_per_minute);
        Ok(App { db, settings, guest_reads })
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
    guest_reads: RateLimit,
}

impl App {
    /// Lets somebody read what is for anybody, at a guest's pace.
    ///
    /// # Errors
    /// `429` to a guest who has read too much.
    pub fn admit(&self, reader: &Guest, address: ClientAddress) -> Result<(), Problem> {
        if reader.actor.is_some() { Ok(()) } else { self.guest_reads.check(address) }
    }
}
