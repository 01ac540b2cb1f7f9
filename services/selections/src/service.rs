//! The parts that make up the service.

use ::db::Db;
use ::service::Role;
use ::web::{Listener, RateLimit};
use actix_web::web::Data;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use messaging::{PublishedEvent, Subscription};
use runtime::{Env, Phase, Process};

use crate::app::App;
use crate::ops::card::Cards;
use crate::ops::opening::{Openings, STORE_INTERVAL};
use crate::settings::Settings;
use crate::{consumers, events, http};

/// Collections of property objects that a public code opens and that posts embed as snapshots.
pub struct Service;

impl ::service::Service for Service {
    const NAME: &'static str = "selections";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const CODE_PREFIX: &'static str = "SELECTIONS_";
    const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/selections");
    const MESSAGES: &'static [(&'static str, &'static str)] =
        &[("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];
    const LISTENERS: &'static [Listener] = &[http::PUBLIC, http::INTERNAL];
    const READS_FROM_REPLICA: bool = true;
    const EVENTS: &'static [PublishedEvent] = events::ALL;
    const CONSUMERS: &'static [Subscription] = consumers::ALL;
    type Settings = Settings;
    type App = App;

    fn settings(env: &mut Env) -> Option<Settings> {
        Settings::read(env)
    }

    fn app(db: Db, settings: Settings) -> anyhow::Result<App> {
        Ok(App {
            db,
            max_added_items_per_hour: settings.max_added_items_per_hour,
            public_open: settings.public_open,
            guest_reads: RateLimit::per_minute(settings.guest_reads_per_minute),
            guest_misses: RateLimit::per_minute(settings.guest_misses_per_minute),
            cards: Cards::new(),
            openings: Openings::default(),
        })
    }

    /// Stores the openings regularly, and once more after the last request.
    fn run(app: Data<App>, role: Role, process: &Process) -> anyhow::Result<()> {
        if role.has_http() {
            process.spawn(Phase::Delivery, "openings of selections", |stopping| async move {
                while stopping.run_until_cancelled(tokio::time::sleep(STORE_INTERVAL)).await.is_some() {
                    store(&app).await;
                }
                store(&app).await;
                Ok(())
            });
        }
        Ok(())
    }
}

async fn store(app: &App) {
    if let Err(error) = app.openings.store(&app.db).await {
        tracing::warn!(%error, "failed to store openings of selections");
    }
}
