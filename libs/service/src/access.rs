//! Revoked access: the copy of identity's revocations, and the view that the listeners check.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use auth::Revocations;
use db::{Db, Prepared, Tx};
use diesel::prelude::*;
use diesel::sql_types::{Double, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use messaging::{Failure, Message, Subscription};
use prometheus_client::metrics::gauge::Gauge;
use runtime::{Metrics, Phase, Process};
use serde::Deserialize;
use time::OffsetDateTime;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The table of revocations, for every service's schema.
pub(crate) const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/access");

const TOPIC: &str = "platform.identity.access-revoked.v1";

/// The interval of reads. A revocation takes effect up to this time after it is stored.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The timeout of a read. After the timeout the service keeps the result of the previous read.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

diesel::table! {
    access_revocation (subject_id) {
        subject_id -> Uuid,
        subject_kind -> Text,
        not_before -> Timestamptz,
    }
}

/// Returns the subscription to revocations of access. `group` is `<service>.access`.
///
/// The listeners of a service with this subscription reject revoked tokens.
pub const fn access_revocations(group: &'static str) -> Subscription {
    Subscription::of_state_topics(group, &[TOPIC], |tx, message| Box::pin(apply(tx, message)))
}

/// Returns true if [`access_revocations`] is one of these subscriptions.
pub(crate) fn is_subscribed(subscriptions: &[Subscription]) -> bool {
    subscriptions.iter().any(|subscription| subscription.topics.contains(&TOPIC))
}

#[derive(Deserialize)]
enum SubjectKind {
    User,
    Company,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AccessRevoked {
    subject_kind: SubjectKind,
    subject_id: Uuid,
    #[serde(with = "time::serde::rfc3339")]
    not_before: OffsetDateTime,
}

/// Stores a revocation, unless a later one of its subject is stored. A tombstone deletes it.
async fn apply(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
    if message.is_tombstone() {
        let subject: Uuid =
            message.key.parse().map_err(|_| Failure::Rejected("the key is not an id".to_owned()))?;
        let deleted = diesel::delete(access_revocation::table.find(subject)).execute(tx.conn()).await;
        deleted.map_err(db::Error::from)?;
        return Ok(());
    }
    let AccessRevoked { subject_kind, subject_id, not_before } = message.decode()?;
    let kind = match subject_kind {
        SubjectKind::User => "User",
        SubjectKind::Company => "Company",
    };
    let upsert = "insert into access_revocation (subject_id, subject_kind, not_before) values ($1, $2, $3) \
        on conflict (subject_id) do update set not_before = excluded.not_before \
        where access_revocation.not_before < excluded.not_before";
    let upsert = diesel::sql_query(upsert)
        .bind::<SqlUuid, _>(subject_id)
        .bind::<Text, _>(kind)
        .bind::<Timestamptz, _>(not_before);
    Prepared(upsert).execute(tx.conn()).await.map_err(db::Error::from)?;
    Ok(())
}

#[derive(QueryableByName)]
#[diesel(table_name = access_revocation)]
struct Row {
    subject_id: Uuid,
    not_before: OffsetDateTime,
}

/// Reads the revocations repeatedly, for the listeners of this replica.
pub(crate) struct Updater {
    db: Db,
    revocations: Revocations,
    /// The age above which a revocation has no effect, since all tokens from before it have
    /// expired.
    window: Duration,
    last_read: Instant,
    age: Gauge<f64, AtomicU64>,
}

impl Updater {
    pub fn new(db: Db, window: Duration, metrics: &Metrics) -> Self {
        let age = Gauge::default();
        metrics.register(|registry| {
            let help = "Time since the last read of the revocations of access";
            registry.register("access_revocations_age_seconds", help, age.clone());
        });
        Self { db, revocations: Revocations::unread(), window, last_read: Instant::now(), age }
    }

    /// Reads the revocations once, then repeatedly as a part of `process`.
    ///
    /// The first read precedes the listeners, so that a restarted replica accepts no revoked token.
    /// If the first read fails, requests with a token get 503 until a read succeeds.
    pub async fn start(mut self, process: &Process) -> Revocations {
        let revocations = self.revocations.clone();
        self.update().await;
        process.spawn(Phase::Work, "access revocations", |stopping| self.run(stopping));
        revocations
    }

    /// Never fails. [`Process::spawn`] requires the `Result`.
    async fn run(mut self, stopping: CancellationToken) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => self.update().await,
                () = stopping.cancelled() => return Ok(()),
            }
        }
    }

    async fn update(&mut self) {
        let read = timeout(READ_TIMEOUT, read(&self.db, self.window)).await;
        match read.unwrap_or_else(|_| Err(db::Error::Unavailable("no response in time".to_owned()))) {
            Ok(revoked) => {
                self.revocations.replace(revoked);
                self.last_read = Instant::now();
            }
            Err(error) => tracing::warn!(%error, "failed to read the revocations of access"),
        }
        self.age.set(self.last_read.elapsed().as_secs_f64());
    }
}

/// Reads the revocations that are not older than `window`, by the clock of the database.
async fn read(db: &Db, window: Duration) -> Result<HashMap<Uuid, OffsetDateTime>, db::Error> {
    let select = "select subject_id, not_before from access_revocation \
        where not_before > clock_timestamp() - make_interval(secs => $1)";
    // Not prepared: the statement is rare, and each connection of the pool would keep a copy.
    let select = diesel::sql_query(select).bind::<Double, _>(window.as_secs_f64());
    let rows: Vec<Row> = select.load(&mut *db.conn().await?).await?;
    Ok(rows.into_iter().map(|row| (row.subject_id, row.not_before)).collect())
}
