//! The composition root: what the service is made of, in each of its roles.

use ::db::{Db, Lookups};
use ::web::{Area, RateLimit, Server};
use actix_web::web;
use auth::{Keys, Verifier};
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use messaging::topics::dead_letters;
use messaging::{Bus, Handler};
use runtime::{Contracts, Endpoints, Env, Phase, Process, Role};

use crate::consumers::Chessboard;
use crate::{Config, events, http};

pub const NAME: &str = "selections";

const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/selections");

const MESSAGES: [(&str, &str); 2] =
    [("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];

/// What the handlers share.
pub struct App {
    pub db: Db,
    pub public_open: bool,
    pub guest_reads: RateLimit,
    pub guest_misses: RateLimit,
}

fn area(default_language: &str) -> anyhow::Result<Area> {
    Area::new(NAME, "SELECTIONS_", &MESSAGES, default_language)
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
        let (mut public, mut internal) = (None, None);
        if role.serves() {
            let keys = Keys::new(config.auth)?;
            process.spawn(Phase::Work, "issuer keys", |ending| keys.clone().refresh(ending));
            let app = web::Data::new(App {
                db: db.clone(),
                public_open: config.public_open,
                guest_reads: RateLimit::per_minute(config.guest_reads_per_minute),
                guest_misses: RateLimit::per_minute(config.guest_misses_per_minute),
            });
            let data = |audience| {
                let verifier = web::Data::new(Verifier::new(keys.clone(), audience));
                let (app, messages) = (app.clone(), area.messages.clone());
                let database = config.database.clone();
                move |worker: &mut web::ServiceConfig| {
                    let lookups = web::Data::new(Lookups::new(&database));
                    worker.app_data(app.clone()).app_data(messages.clone());
                    worker.app_data(verifier.clone()).app_data(lookups);
                }
            };
            public = Some(server.listen(http::PUBLIC, config.web.public, data(auth::PLATFORM))?);
            internal = Some(server.listen(http::INTERNAL, config.internal, data(auth::PLATFORM_INTERNAL))?);
        }
        if role.works() {
            bus(db, config.messaging).start(process, Self::topics())?;
        }
        // Last: who asks whether the service is ready finds it listening.
        Ok(Endpoints { public, internal, admin: server.admin()? })
    }

    async fn operate(config: Config, operation: messaging::Operation) -> anyhow::Result<()> {
        bus(Db::new(&config.database)?, config.messaging).operate(operation).await
    }

    fn topics() -> Vec<String> {
        let published = events::TOPICS.iter().map(|topic| (*topic).to_owned());
        let consumed =
            Chessboard::TOPICS.iter().flat_map(|topic| [(*topic).to_owned(), dead_letters(topic, NAME)]);
        published.chain(consumed).collect()
    }

    fn contracts() -> anyhow::Result<Contracts> {
        let api = ::web::describe(&area("en")?, &[http::PUBLIC, http::INTERNAL]);
        Ok(Contracts { openapi: ::web::to_yaml(&api)?, asyncapi: events::asyncapi()? })
    }
}

fn bus(db: Db, config: messaging::Config) -> Bus {
    Bus::new(NAME, db, config).subscribe::<Chessboard>()
}
