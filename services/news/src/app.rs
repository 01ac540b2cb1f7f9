//! The composition root: what the service is made of, in each of its roles.

use ::db::{Db, Lookups};
use ::web::{Area, RateLimit, Server};
use actix_web::web;
use auth::{Keys, Verifier};
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use messaging::Bus;
use runtime::{Contracts, Endpoints, Env, Phase, Process, Role};

use crate::clients::Selections;
use crate::jobs::SnapshotDetachRetry;
use crate::{Config, events, http};

pub const NAME: &str = "news";

const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/news");

const MESSAGES: [(&str, &str); 2] =
    [("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];

/// What the handlers share.
pub struct App {
    pub db: Db,
    pub selections: Selections,
    pub guest_reads: RateLimit,
}

fn area(default_language: &str) -> anyhow::Result<Area> {
    Area::new(NAME, "", &MESSAGES, default_language)
}

/// The service as its binary, the local stack and the tests see it.
pub struct Service;

impl runtime::Service for Service {
    const NAME: &'static str = NAME;
    type Config = Config;
    type Operation = messaging::Operation;

    fn configure(env: &mut Env) -> Option<Config> {
        Config::read(env)
    }

    async fn migrate(config: &Config) -> anyhow::Result<()> {
        ::db::migrate(&config.database, [messaging::MIGRATIONS, MIGRATIONS]).await?;
        config.messaging.make_topics(NAME, &Self::topics()).await
    }

    async fn start(config: Config, role: Role, process: &Process) -> anyhow::Result<Endpoints> {
        let db = Db::new(&config.database)?;
        db.require(process);
        let area = area(&config.web.default_language)?;
        let queue = db.clone();
        let server = Server::new(process, config.web.clone(), area.clone());
        let server = server.shed_while(move || queue.is_crowded());
        let mut public = None;
        if role.serves() {
            let keys = Keys::new(config.auth)?;
            process.spawn(Phase::Work, "issuer keys", |ending| keys.clone().refresh(ending));
            let app = web::Data::new(App {
                db: db.clone(),
                selections: Selections::new(&config.selections)?,
                guest_reads: RateLimit::per_minute(config.guest_reads_per_minute),
            });
            let verifier = web::Data::new(Verifier::new(keys, auth::PLATFORM));
            let database = config.database.clone();
            let data = move |worker: &mut web::ServiceConfig| {
                let lookups = web::Data::new(Lookups::new(&database));
                worker.app_data(app.clone()).app_data(verifier.clone()).app_data(lookups);
            };
            public = Some(server.listen(http::PUBLIC, config.web.public, data)?);
        }
        if role.works() {
            bus(db.clone(), config.messaging).start(process, Self::topics())?;
            let retry = SnapshotDetachRetry::new(db, Selections::new(&config.selections)?);
            process.spawn(Phase::Work, "snapshot-detach-retry", |ending| retry.run(ending));
        }
        // Last: who asks whether the service is ready finds it listening.
        Ok(Endpoints { public, internal: None, admin: server.admin()? })
    }

    async fn operate(config: Config, operation: messaging::Operation) -> anyhow::Result<()> {
        bus(Db::new(&config.database)?, config.messaging).operate(operation).await
    }

    fn topics() -> Vec<String> {
        events::TOPICS.iter().map(|topic| (*topic).to_owned()).collect()
    }

    fn contracts() -> anyhow::Result<Contracts> {
        let api = ::web::describe(&area("en")?, &[http::PUBLIC]);
        Ok(Contracts { openapi: ::web::to_yaml(&api)?, asyncapi: events::asyncapi()? })
    }
}

fn bus(db: Db, config: messaging::Config) -> Bus {
    Bus::new(NAME, db, config)
}
