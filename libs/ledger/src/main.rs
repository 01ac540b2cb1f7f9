//! The smallest real service, for the tests that torture messaging: accounts that count up, an event
//! for every step, and a consumer that writes down what it was told.

mod consumer;
mod writer;

use std::process::ExitCode;
use std::time::Duration;

use db::Db;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use messaging::{AsyncApi, Bus, Event};
use runtime::{Contracts, Endpoints, Env, Phase, Process, Role};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;
use web::{Area, Server};

use crate::consumer::Ledger;

const NAME: &str = "ledger";
const MIGRATIONS: EmbeddedMigrations = embed_migrations!();

/// An account has come to `n`.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
struct Counted {
    key: Uuid,
    n: i64,
}

impl Event for Counted {
    const TOPIC: &'static str = "platform.ledger.counted.v1";
    const CONTRACT_VERSION: u32 = 1;

    fn key(&self) -> Uuid {
        self.key
    }
}

struct Config {
    database: db::Config,
    messaging: messaging::Config,
    web: web::Config,
    writers: u32,
    pause_ms: u64,
}

struct Service;

impl runtime::Service for Service {
    const NAME: &'static str = NAME;
    type Config = Config;
    type Operation = messaging::Operation;

    fn configure(env: &mut Env) -> Option<Config> {
        let database = db::Config::read(env, NAME);
        let messaging = messaging::Config::read(env);
        let web = web::Config::read(env);
        let writers = env.or("LEDGER_WRITERS", 4, "how many count at the same time");
        let pause_ms = env.or("LEDGER_PAUSE_MS", 10, "how long each of them rests between two steps");
        Some(Config {
            database: database?,
            messaging: messaging?,
            web: web?,
            writers: writers?,
            pause_ms: pause_ms?,
        })
    }

    async fn migrate(config: &Config) -> anyhow::Result<()> {
        db::migrate(&config.database, [messaging::MIGRATIONS, MIGRATIONS]).await
    }

    async fn start(config: Config, role: Role, process: &Process) -> anyhow::Result<Endpoints> {
        let db = Db::new(&config.database)?;
        db.require(process);
        let area = Area::new(NAME, "", &[], &config.web.default_language)?;
        let server = Server::new(process, config.web, area);
        if role.serves() {
            let pause = Duration::from_millis(config.pause_ms);
            for _ in 0..config.writers {
                let db = db.clone();
                process.spawn(Phase::Work, "writer", |ending| writer::write(db, pause, ending));
            }
        }
        if role.works() {
            bus(db, config.messaging).start(process, Self::topics())?;
        }
        Ok(Endpoints { public: None, internal: None, admin: server.admin()? })
    }

    async fn operate(config: Config, operation: messaging::Operation) -> anyhow::Result<()> {
        bus(Db::new(&config.database)?, config.messaging).operate(operation).await
    }

    fn topics() -> Vec<String> {
        vec![Counted::TOPIC.to_owned(), messaging::topics::dead_letters(Counted::TOPIC, NAME)]
    }

    fn contracts() -> anyhow::Result<Contracts> {
        let asyncapi = AsyncApi::new(NAME).publishes::<Counted>();
        Ok(Contracts { openapi: String::new(), asyncapi: asyncapi.to_yaml()? })
    }
}

fn bus(db: Db, config: messaging::Config) -> Bus {
    Bus::new(NAME, db, config).subscribe::<Ledger>()
}

fn main() -> ExitCode {
    runtime::main::<Service>()
}
