//! The service, as what it is made of.

use std::time::Duration;

use ::db::Db;
use ::jobs::Jobs;
use ::web::Listener;
use actix_web::web::Data;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use http_client::Call;
use messaging::{Published, Subscription};
use runtime::{Env, Phase, Process};
use service::Role;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::clients::LiveKit;
use crate::ops::conference::Terms;
use crate::settings::Settings;
use crate::stream::{self, Hub};
use crate::{clients, consumers, events, http, jobs};

/// Chats of deals and of two, and conferences that ring.
pub struct Service;

impl service::Service for Service {
    const NAME: &'static str = "messenger";
    const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/messenger");
    const MESSAGES: &'static [(&'static str, &'static str)] =
        &[("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];
    const LISTENERS: &'static [Listener] = &[http::PUBLIC];
    /// Ten thousand streams, and those who ask beside.
    const CONNECTIONS: usize = 12_288;
    const EVENTS: &'static [Published] = events::ALL;
    const CONSUMERS: &'static [Subscription] = consumers::ALL;
    const CALLS: &'static [Call] = clients::CALLS;
    type Settings = Settings;
    type App = App;

    fn settings(env: &mut Env) -> Option<Settings> {
        Settings::read(env)
    }

    fn app(db: Db, mut settings: Settings) -> anyhow::Result<App> {
        let livekit = settings.livekit.take().map(LiveKit::new).transpose()?;
        Ok(App { db, livekit, settings, streams: Hub::default() })
    }

    fn jobs(app: Data<App>, jobs: Jobs) -> Jobs {
        jobs::add(app.into_inner(), jobs)
    }

    fn run(app: Data<App>, role: Role, process: &Process) -> anyhow::Result<()> {
        if role.serves() {
            process.spawn(Phase::Work, "streams", |ending| stream::watch(app.clone(), ending));
        }
        if let Some(every) = app.settings.media_probe.filter(|_| role.serves() && app.livekit.is_some()) {
            process.spawn(Phase::Work, "media probe", move |ending| probe(app, every, ending));
        }
        Ok(())
    }
}

/// Looks again and again whether LiveKit lives.
async fn probe(app: Data<App>, every: Duration, ending: CancellationToken) -> anyhow::Result<()> {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while let Some(livekit) = &app.livekit {
        let probed = async {
            ticks.tick().await;
            livekit.probe(every).await;
        };
        tokio::select! {
            () = probed => {}
            () = ending.cancelled() => return Ok(()),
        }
    }
    Ok(())
}

/// What handlers and jobs share.
pub struct App {
    pub db: Db,
    /// `None`: it is not configured.
    pub livekit: Option<LiveKit>,
    pub settings: Settings,
    pub streams: Hub,
}

impl App {
    /// LiveKit, where somebody who is rung now could hear anything.
    pub fn reachable_livekit(&self) -> Option<&LiveKit> {
        self.livekit.as_ref().filter(|livekit| livekit.is_available())
    }

    /// What a change of a conference is made under.
    pub fn terms(&self) -> Terms<'_> {
        Terms { timing: Some(&self.settings.timing), livekit: self.reachable_livekit() }
    }
}
