//! The parts that make up the service.

use ::db::Db;
use ::jobs::Jobs;
use ::service::access_revocations;
use ::web::{Listener, RateLimit};
use actix_web::web::Data;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use http_client::Call;
use messaging::{PublishedEvent, Republisher, Restorer, Subscription};
use runtime::Env;

use crate::app::App;
use crate::atom::AtomFeeds;
use crate::clients::Selections;
use crate::settings::Settings;
use crate::{clients, events, http, jobs};

/// Posts of ordered blocks, with embedded snapshots of selections.
pub struct Service;

impl ::service::Service for Service {
    const NAME: &'static str = "news";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/news");
    const MESSAGES: &'static [(&'static str, &'static str)] =
        &[("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];
    const LISTENERS: &'static [Listener] = &[http::PUBLIC];
    const READS_FROM_REPLICA: bool = true;
    const EVENTS: &'static [PublishedEvent] = events::ALL;
    const REPUBLISHED: &'static [Republisher] = events::REPUBLISHED;
    const RESTORED: &'static [Restorer] = events::RESTORED;
    const CONSUMERS: &'static [Subscription] = &[access_revocations("news.access")];
    const CALLS: &'static [Call] = clients::CALLS;
    type Settings = Settings;
    type App = App;

    fn settings(env: &mut Env) -> Option<Settings> {
        Settings::read(env)
    }

    fn app(db: Db, settings: Settings) -> anyhow::Result<App> {
        Ok(App {
            db,
            selections: Selections::new(&settings.selections, settings.embeds_max_age)?,
            guest_reads: RateLimit::per_minute(settings.guest_reads_per_minute),
            embeds_wait: settings.embeds_wait,
            quotas: settings.quotas,
            atom_feeds: AtomFeeds::new(),
        })
    }

    fn jobs(app: Data<App>, jobs: Jobs) -> Jobs {
        jobs::add(app.into_inner(), jobs)
    }
}
