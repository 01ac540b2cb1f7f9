//! The composition of the service.

use std::time::Duration;

use ::db::Db;
use ::jobs::Jobs;
use ::service::Role;
use ::web::Listener;
use actix_web::web::Data;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use http_client::Call;
use messaging::{PublishedEvent, Subscription};
use runtime::{Env, Phase, Process};
use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::app::{App, MAX_CONCURRENT_CATCH_UPS};
use crate::clients::{self, LiveKit};
use crate::settings::Settings;
use crate::stream::{self, Hub};
use crate::{consumers, events, http, jobs};

/// The service of chats and conferences.
pub struct Service;

impl ::service::Service for Service {
    const NAME: &'static str = "messenger";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/messenger");
    const MESSAGES: &'static [(&'static str, &'static str)] =
        &[("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];
    const LISTENERS: &'static [Listener] = &[http::PUBLIC];
    /// Room for 10,000 streams and for other requests. Only the sum is limited.
    const MAX_CONNECTIONS: usize = 12_288;
    const EVENTS: &'static [PublishedEvent] = events::ALL;
    const CONSUMERS: &'static [Subscription] = consumers::ALL;
    const CALLS: &'static [Call] = clients::CALLS;
    type Settings = Settings;
    type App = App;

    fn settings(env: &mut Env) -> Option<Settings> {
        Settings::read(env)
    }

    fn app(db: Db, mut settings: Settings) -> anyhow::Result<App> {
        let livekit = settings.livekit.take().map(LiveKit::new).transpose()?;
        Ok(App {
            db,
            livekit,
            settings,
            streams: Hub::default(),
            catch_ups: Semaphore::new(MAX_CONCURRENT_CATCH_UPS),
        })
    }

    fn jobs(app: Data<App>, jobs: Jobs) -> Jobs {
        jobs::add(app.into_inner(), jobs)
    }

    fn run(app: Data<App>, role: Role, process: &Process) -> anyhow::Result<()> {
        let waking = app.clone();
        process.spawn(Phase::Work, "wake-ups of streams", move |stopping| async move {
            stream::exchange_wake_ups(&waking.db, role.has_http().then_some(&waking.streams), stopping).await;
            Ok(())
        });
        if role.has_http() {
            let app = app.clone();
            process.spawn(Phase::Work, "streams", move |stopping| async move {
                stream::run(&app.db, &app.streams, app.settings.stream.poll_interval, stopping).await;
                Ok(())
            });
        }
        let probe_interval = app.settings.media_probe_interval;
        if let Some(interval) = probe_interval.filter(|_| role.has_http() && app.livekit.is_some()) {
            process.spawn(Phase::Work, "media probe", move |stopping| probe(app, interval, stopping));
        }
        Ok(())
    }
}

/// Probes LiveKit at this interval until the process ends.
async fn probe(app: Data<App>, interval: Duration, stopping: CancellationToken) -> anyhow::Result<()> {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while let Some(livekit) = &app.livekit {
        let probed = async {
            ticks.tick().await;
            livekit.probe(interval).await;
        };
        tokio::select! {
            () = probed => {}
            () = stopping.cancelled() => return Ok(()),
        }
    }
    Ok(())
}
