//! The service with its listeners, events, consumers and jobs.

use std::sync::Arc;

use ::db::Db;
use ::jobs::Jobs;
use ::web::{Listener, RateLimit};
use actix_web::web::Data;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use messaging::{PublishedEvent, Republisher, Restorer, Subscription};
use runtime::{Env, Process};
use service::Role;

use crate::app::App;
use crate::catalog_index::CatalogIndex;
use crate::public_feed::PublicFeeds;
use crate::settings::Settings;
use crate::{catalog_index, consumers, db, events, http, jobs, metrics};

/// The service chessboard: developers' profiles, projects, buildings and grids of property objects.
pub struct Service;

impl service::Service for Service {
    const NAME: &'static str = "chessboard";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/chessboard");
    const MESSAGES: &'static [(&'static str, &'static str)] =
        &[("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];
    const LISTENERS: &'static [Listener] = &[http::PUBLIC];
    const READS_FROM_REPLICA: bool = true;
    const EVENTS: &'static [PublishedEvent] = events::ALL;
    const REPUBLISHED: &'static [Republisher] = events::REPUBLISHED;
    const RESTORED: &'static [Restorer] = events::RESTORED;
    const CONSUMERS: &'static [Subscription] = consumers::ALL;
    type Settings = Settings;
    type App = App;

    fn settings(env: &mut Env) -> Option<Settings> {
        Settings::read(env)
    }

    /// The indexes of running replicas would miss the restored rows.
    async fn restored(db: &Db) -> Result<(), ::db::Error> {
        let conn = db.conn().await?;
        Ok(db::catalog_index::forget_history(&conn).await?)
    }

    fn app(db: Db, settings: Settings) -> anyhow::Result<App> {
        let guest_reads = RateLimit::per_minute(settings.guest_reads_per_minute);
        let public_feeds = Arc::new(PublicFeeds::new());
        let catalog_index = Arc::new(CatalogIndex::new(settings.catalog_index_mib as usize * 1024 * 1024));
        Ok(App { db, settings, guest_reads, public_feeds, catalog_index })
    }

    fn jobs(app: Data<App>, jobs: Jobs) -> Jobs {
        jobs::add(app.into_inner(), jobs)
    }

    fn run(app: Data<App>, role: Role, process: &Process) -> anyhow::Result<()> {
        if role.has_http() {
            catalog_index::start(app.catalog_index.clone(), app.db.clone(), process);
        }
        if role.has_background_tasks() {
            metrics::report_waiting_profiles(app.db.clone(), process);
        }
        Ok(())
    }
}
