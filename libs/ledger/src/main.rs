//! A minimal service for the fault tests of messaging.
//!
//! Writers increment accounts and publish an event for each step. One consumer stores the counts
//! that it receives, and another one the states of accounts.

mod accounts;
mod consumer;
mod writer;

use std::process::ExitCode;
use std::time::Duration;

use actix_web::web::Data;
use db::Db;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use messaging::{Aggregate, Event, PublishedEvent, Republisher, Restorer, Subscription};
use runtime::{Env, Phase, Process};
use serde::{Deserialize, Serialize};
use service::Role;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::accounts::Accounts;
use crate::consumer::{AccountReplicas, Counts, Remarks};

const ACCOUNT: Aggregate = Aggregate { name: "Account", table: "account", key: "key" };

/// An account was incremented to `n`.
#[derive(Serialize, Deserialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.ledger.counted.v1", version = 1, aggregate = ACCOUNT, key = key)]
struct Counted {
    key: Uuid,
    n: i64,
}

/// A remark on an account was stored. The account does not change.
#[derive(Serialize, Deserialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.ledger.remarked.v1", version = 1, aggregate = ACCOUNT, key = key)]
struct Remarked {
    key: Uuid,
}

/// The current state of an account. A closed account has a tombstone instead.
#[derive(Serialize, Deserialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.ledger.account-upserted.v1", version = 1, aggregate = ACCOUNT, key = key)]
struct AccountUpserted {
    key: Uuid,
    n: i64,
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
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const MIGRATIONS: EmbeddedMigrations = embed_migrations!();
    const EVENTS: &'static [PublishedEvent] = &[
        PublishedEvent::of::<Counted>(),
        PublishedEvent::of::<Remarked>(),
        PublishedEvent::of::<AccountUpserted>(),
    ];
    const REPUBLISHED: &'static [Republisher] = &[Republisher::of::<Accounts>()];
    const RESTORED: &'static [Restorer] = &[Restorer::of::<Accounts>()];
    const CONSUMERS: &'static [Subscription] =
        &[Subscription::of::<Counts>(), Subscription::of::<Remarks>(), Subscription::of::<AccountReplicas>()];
    type Settings = Settings;
    type App = App;

    fn settings(env: &mut Env) -> Option<Settings> {
        let writers = env.with_default("LEDGER_WRITERS", 4, "number of tasks that increment accounts");
        let remarkers = env.with_default("LEDGER_REMARKERS", 0, "number of tasks that add remarks");
        let pause_ms =
            env.with_default("LEDGER_PAUSE_MS", 10, "delay of each task between two steps, in milliseconds");
        Some(Settings { writers: writers?, remarkers: remarkers?, pause_ms: pause_ms? })
    }

    fn app(db: Db, settings: Settings) -> anyhow::Result<App> {
        Ok(App { db, settings })
    }

    fn run(app: Data<App>, role: Role, process: &Process) -> anyhow::Result<()> {
        if role.has_http() {
            let pause = Duration::from_millis(app.settings.pause_ms);
            for _ in 0..app.settings.writers {
                let db = app.db.clone();
                process.spawn(Phase::Work, "writer", |stopping| writer::write_counts(db, pause, stopping));
            }
            for _ in 0..app.settings.remarkers {
                let db = app.db.clone();
                process.spawn(Phase::Work, "remarker", |stopping| writer::write_remarks(db, pause, stopping));
            }
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    service::main::<Service>()
}
