//! The command that publishes the current state of aggregates again.
//!
//! The command serves a new consumer whose topic no longer has old messages, and a copy
//! that was lost. It also repairs a compacted topic in which a late message has overwritten a newer
//! one.

use std::future::Future;
use std::num::NonZeroU32;
use std::time::Duration;

use db::Tx;
use diesel::OptionalExtension;
use diesel::sql_types::{BigInt, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use futures_util::future::BoxFuture;
use tokio::time::{MissedTickBehavior, interval};
use uuid::Uuid;

use crate::bus::Bus;
use crate::contract::event::Aggregate;
use crate::lanes;

/// The number of aggregates that one transaction republishes.
const BATCH_KEYS: usize = 200;
/// Republishing pauses while more events are pending, since new events queue behind them.
const MAX_PENDING_EVENTS: i64 = 5_000;
const PENDING_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Publishes the current state of one kind of aggregate again.
pub trait Republish {
    const AGGREGATE: Aggregate;

    /// Appends the events with the current state and the stored versions of the aggregates `keys`.
    /// Consumers that have applied these versions change nothing.
    ///
    /// The caller has locked the rows of the aggregates, so no other transaction publishes their
    /// events at the same time.
    fn republish(tx: &mut Tx, keys: &[Uuid]) -> impl Future<Output = Result<(), db::Error>> + Send;
}

type RepublishFn = for<'a> fn(&'a mut Tx, &'a [Uuid]) -> BoxFuture<'a, Result<(), db::Error>>;

/// A [`Republish`] implementation as a value.
#[derive(Clone, Copy)]
pub struct Republisher {
    aggregate: Aggregate,
    republish: RepublishFn,
}

#[derive(diesel::QueryableByName)]
struct Progress {
    #[diesel(sql_type = Nullable<SqlUuid>)]
    last_key: Option<Uuid>,
    #[diesel(sql_type = BigInt)]
    republished: i64,
}

#[derive(diesel::QueryableByName)]
struct Key {
    #[diesel(sql_type = SqlUuid)]
    key: Uuid,
}

impl Republisher {
    /// Returns the value of implementation `R`.
    pub const fn of<R: Republish + 'static>() -> Self {
        Self { aggregate: R::AGGREGATE, republish: |tx, keys| Box::pin(R::republish(tx, keys)) }
    }

    /// Republishes the next batch and stores the progress. Returns the number of aggregates that
    /// were republished so far, and true if none is left.
    async fn republish_next(&self, tx: &mut Tx) -> Result<(i64, bool), db::Error> {
        let Aggregate { name, table, key } = self.aggregate;
        diesel::sql_query("insert into outbox_republish (aggregate) values ($1) on conflict do nothing")
            .bind::<Text, _>(name)
            .execute(tx.conn())
            .await?;
        let progress = diesel::sql_query(
            "select last_key, republished from outbox_republish where aggregate = $1 for update",
        )
        .bind::<Text, _>(name)
        .get_result::<Progress>(tx.conn())
        .await
        .optional()?;
        // Without a row, a concurrent command has finished between the two statements.
        let Some(Progress { last_key, republished }) = progress else { return Ok((0, true)) };
        let keys = diesel::sql_query(format!(
            "select {key} as key from {table} where $1 is null or {key} > $1 \
             order by {key} limit {BATCH_KEYS} for no key update"
        ))
        .bind::<Nullable<SqlUuid>, _>(last_key)
        .load::<Key>(tx.conn())
        .await?;
        let keys: Vec<Uuid> = keys.into_iter().map(|row| row.key).collect();
        let Some(last) = keys.last() else {
            diesel::sql_query("delete from outbox_republish where aggregate = $1")
                .bind::<Text, _>(name)
                .execute(tx.conn())
                .await?;
            return Ok((republished, true));
        };
        (self.republish)(tx, &keys).await?;
        let republished = republished + i64::try_from(keys.len()).unwrap_or(i64::MAX);
        diesel::sql_query("update outbox_republish set last_key = $2, republished = $3 where aggregate = $1")
            .bind::<Text, _>(name)
            .bind::<SqlUuid, _>(*last)
            .bind::<BigInt, _>(republished)
            .execute(tx.conn())
            .await?;
        Ok((republished, false))
    }
}

/// Republishes all aggregates of a kind, at most `per_second` in a second. An interrupted command
/// resumes where it stopped.
pub(super) async fn execute(
    bus: &Bus,
    republishers: &[Republisher],
    kind: &str,
    per_second: NonZeroU32,
) -> anyhow::Result<()> {
    let Some(republisher) = republishers.iter().find(|republisher| republisher.aggregate.name == kind) else {
        let kinds: Vec<_> = republishers.iter().map(|republisher| republisher.aggregate.name).collect();
        anyhow::bail!("{} republishes {kinds:?}, not {kind}", bus.service);
    };
    let mut batches = interval(Duration::from_secs(BATCH_KEYS as u64) / per_second.get());
    batches.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        batches.tick().await;
        let (count, is_complete) = bus.db.tx(async |tx| republisher.republish_next(tx).await).await?;
        if is_complete {
            println!("{count} republished");
            return Ok(());
        }
        println!("{count} republished so far");
        while count_pending_events(bus).await? > MAX_PENDING_EVENTS {
            tokio::time::sleep(PENDING_CHECK_INTERVAL).await;
        }
    }
}

/// Returns the number of pending events, counted up to one above [`MAX_PENDING_EVENTS`].
async fn count_pending_events(bus: &Bus) -> Result<i64, db::Error> {
    bus.db.tx(async |tx| lanes::count_pending(tx, MAX_PENDING_EVENTS + 1).await).await
}
