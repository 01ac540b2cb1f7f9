//! The smallest real service, for the tests that torture messaging: accounts that count up, an event
//! for every step, and a consumer that writes down what it was told.

mod accounts;
mod consumer;
mod writer;

use std::process::ExitCode;
use std::time::Duration;

use actix_web::web::Data;
use db::Db;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use messaging::{Aggregate, Event, PublishedEvent, Republisher, Subscription};
use runtime::{Env, Phase, Process};
use serde::{Deserialize, Serialize};
use service::Role;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::accounts::Accounts;
use crate::consumer::{Ledger, Remarks};

const ACCOUNT: Aggregate = Aggregate { name: "Account", table: "account", key: "key" };

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
    const AGGREGATE: Aggregate = ACCOUNT;

    fn key(&self) -> Uuid {
        self.key
    }
}

/// Something was remarked of an account, which itself stays as it is.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
struct Remarked {
    key: Uuid,
}

impl Event for Remarked {
    const TOPIC: &'static str = "platform.ledger.remarked.v1";
    const CONTRACT_VERSION: u32 = 1;
    const AGGREGATE: Aggregate = ACCOUNT;

    fn key(&self) -> Uuid {
        self.key
    }
}

/// An account as it is, told anew. Of one that is closed nothing is left.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
struct AccountUpserted {
    key: Uuid,
    n: i64,
}

impl Event for AccountUpserted {
    const TOPIC: &'static str = "platform.ledger.account-upserted.v1";
    const CONTRACT_VERSION: u32 = 1;
    const AGGREGATE: Aggregate = ACCOUNT;

    fn key(&self) -> Uuid {
        self.key
    }
}

struct Settings {
    writers: u32,
    remarkers: u32,
    pause_ms: u64,
}

struct App {
    db: Db,
    settings: Settings,
}

struct Service;

impl service::Service for Service {
    const NAME: &'static str = "ledger";
    const MIGRATIONS: EmbeddedMigrations = embed_migrations!();
    const EVENTS: &'static [PublishedEvent] = &[
        PublishedEvent::of::<Counted>(),
        PublishedEvent::of::<Remarked>(),
        PublishedEvent::of::<AccountUpserted>(),
    ];
    const REPUBLISHED: &'static [Republisher] = &[Republisher::of::<Accounts>()];
    const CONSUMERS: &'static [Subscription] = &[Subscription::of::<Ledger>(), Subscription::of::<Remarks>()];
    type Settings = Settings;
    type App = App;

    fn settings(env: &mut Env) -> Option<Settings> {
        let writers = env.or("LEDGER_WRITERS", 4, "how many count at the same time");
        let remarkers = env.or("LEDGER_REMARKERS", 0, "how many remark on accounts at the same time");
        let pause_ms = env.or("LEDGER_PAUSE_MS", 10, "how long each of them rests between two steps");
        Some(Settings { writers: writers?, remarkers: remarkers?, pause_ms: pause_ms? })
    }

    fn app(db: Db, settings: Settings) -> anyhow::Result<App> {
        Ok(App { db, settings })
    }

    fn run(app: Data<App>, role: Role, process: &Process) -> anyhow::Result<()> {
        if role.serves() {
            let pause = Duration::from_millis(app.settings.pause_ms);
            for _ in 0..app.settings.writers {
                let db = app.db.clone();
                process.spawn(Phase::Work, "writer", |ending| writer::write(db, pause, ending));
            }
            for _ in 0..app.settings.remarkers {
                let db = app.db.clone();
                process.spawn(Phase::Work, "remarker", |ending| writer::remark(db, pause, ending));
            }
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    service::main::<Service>()
}
