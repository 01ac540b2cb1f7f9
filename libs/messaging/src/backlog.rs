//! Metrics of the backlog in a service's tables, and the retention of the inbox and of superseded
//! dead letters.
//!
//! Every process with background tasks reports the metrics, so that a backlog is visible even while
//! no relay runs.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use db::{Conn, Db};
use diesel::sql_types::{Array, BigInt, Integer, Text};
use diesel_async::RunQueryDsl;
use prometheus_client::metrics::gauge::Gauge;
use runtime::{Metrics, MetricsAge};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::lanes;

const UPDATE_INTERVAL: Duration = Duration::from_secs(10);
/// The largest number of rows in a gauge, which means more than 100,000. Counting further rows
/// would take seconds and would not help an operator.
const MAX_COUNTED: i64 = 100_001;
/// The number of rows that one statement deletes.
const PURGE_BATCH: usize = 10_000;
/// The maximum time of one purge. The next update deletes the remaining expired rows.
const MAX_PURGE_TIME: Duration = Duration::from_secs(1);

pub(crate) struct Backlog {
    db: Db,
    /// The retention in days of each topic that is not compacted.
    retention_days: Vec<(String, i32)>,
    pending: Gauge,
    oldest_seconds: Gauge<f64, AtomicU64>,
    parked: Gauge,
    dead_letters: Gauge,
    age: MetricsAge,
}

/// The kinds of rows that a purge deletes.
#[derive(Clone, Copy)]
enum Expired {
    /// Rows of `inbox_event`.
    Events,
    /// Rows of `inbox`.
    Keys,
    /// Superseded rows of `dead_letter`.
    DeadLetters,
}

#[derive(diesel::QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

impl Backlog {
    pub(crate) fn new(db: Db, config: &Config, metrics: &Metrics) -> anyhow::Result<Self> {
        let backlog = Self {
            db,
            retention_days: config.topics.declaration()?.retention_days(),
            pending: Gauge::default(),
            oldest_seconds: Gauge::default(),
            parked: Gauge::default(),
            dead_letters: Gauge::default(),
            age: MetricsAge::register(metrics, "backlog"),
        };
        metrics.register(|registry| {
            registry.register("outbox_pending", "Events not acknowledged yet", backlog.pending.clone());
            let oldest = backlog.oldest_seconds.clone();
            registry.register("outbox_oldest_seconds", "Age of the oldest pending event", oldest);
            registry.register("outbox_parked", "Events that the broker rejects", backlog.parked.clone());
            registry.register("dead_letters", "Dead letters", backlog.dead_letters.clone());
        });
        Ok(backlog)
    }

    /// Updates the metrics and deletes expired rows until `stopping`, once per
    /// [`UPDATE_INTERVAL`].
    ///
    /// Never fails. [`Process::spawn`](runtime::Process::spawn) requires the `Result`.
    pub(crate) async fn run(mut self, stopping: CancellationToken) -> anyhow::Result<()> {
        loop {
            let is_updated = self.update().await;
            self.age.record(is_updated);
            tokio::select! {
                () = tokio::time::sleep(UPDATE_INTERVAL) => {}
                () = stopping.cancelled() => return Ok(()),
            }
        }
    }

    /// Updates each metric and deletes expired rows. If one statement fails, the others still run.
    /// Returns true if every metric was updated.
    async fn update(&self) -> bool {
        let metrics = [
            ("outbox_pending", self.set_pending().await),
            ("outbox_oldest_seconds", self.set_oldest_seconds().await),
            ("outbox_parked", self.set_count("outbox_parked", &self.parked).await),
            (
                "dead_letters",
                self.set_count("dead_letter where superseded_by is null", &self.dead_letters).await,
            ),
        ];
        let is_updated = metrics.iter().all(|(_, result)| result.is_ok());
        let purges = [
            ("expired events of the inbox", self.purge(Expired::Events).await),
            ("expired keys of the inbox", self.purge(Expired::Keys).await),
            ("expired dead letters", self.purge(Expired::DeadLetters).await),
        ];
        for (step, result) in metrics.into_iter().chain(purges) {
            if let Err(error) = result {
                tracing::warn!(
                    step,
                    %error,
                    "failed to update a metric of the backlog or to delete expired rows"
                );
            }
        }
        is_updated
    }

    async fn set_pending(&self) -> Result<(), db::Error> {
        self.pending.set(self.db.tx(async |tx| lanes::count_pending(tx, MAX_COUNTED).await).await?);
        Ok(())
    }

    async fn set_oldest_seconds(&self) -> Result<(), db::Error> {
        self.oldest_seconds.set(self.db.tx(async |tx| lanes::oldest_seconds(tx).await).await?);
        Ok(())
    }

    async fn set_count(&self, rows: &str, gauge: &Gauge) -> Result<(), db::Error> {
        let count =
            format!("select count(*) as count from (select from {rows} limit {MAX_COUNTED}) as counted");
        gauge.set(diesel::sql_query(count).get_result::<Count>(&mut self.db.conn().await?).await?.count);
        Ok(())
    }

    /// Deletes expired rows until a batch is not full, for up to [`MAX_PURGE_TIME`].
    async fn purge(&self, expired: Expired) -> Result<(), db::Error> {
        let started_at = Instant::now();
        let mut conn = self.db.conn().await?;
        loop {
            let deleted = match expired {
                Expired::Events => delete_expired_events(&mut conn).await?,
                Expired::Keys => self.delete_expired_keys(&mut conn).await?,
                Expired::DeadLetters => delete_expired_dead_letters(&mut conn).await?,
            };
            if deleted < PURGE_BATCH || started_at.elapsed() >= MAX_PURGE_TIME {
                return Ok(());
            }
        }
    }

    /// Deletes the inbox rows of keys after twice the retention of their topic. Kafka has deleted
    /// the messages of these keys by then. Rows of compacted and of undeclared topics are kept,
    /// since Kafka may keep their messages for ever.
    async fn delete_expired_keys(&self, conn: &mut Conn) -> Result<usize, db::Error> {
        let (topics, days): (Vec<_>, Vec<_>) = self.retention_days.iter().cloned().unzip();
        let deleted = diesel::sql_query(format!(
            "delete from inbox where ctid = any(array(\
             select inbox.ctid from inbox join unnest($1, $2) as retention (topic, days) using (topic) \
             where not blocked and seen_on < (clock_timestamp() at time zone 'UTC')::date - 2 * days \
             limit {PURGE_BATCH} for update of inbox skip locked))"
        ));
        let deleted = deleted.bind::<Array<Text>, _>(topics).bind::<Array<Integer>, _>(days);
        Ok(deleted.execute(conn).await?)
    }
}

/// Deletes rows of `inbox_event` after 30 days. Kafka has deleted the messages by then, except
/// those of compacted topics. Handlers drop repetitions of these messages by version.
async fn delete_expired_events(conn: &mut Conn) -> Result<usize, db::Error> {
    let deleted = diesel::sql_query(format!(
        "delete from inbox_event where ctid = any(array(\
         select ctid from inbox_event where seen_at < clock_timestamp() - interval '30 days' \
         order by seen_at limit {PURGE_BATCH}))"
    ));
    Ok(deleted.execute(conn).await?)
}

/// Deletes superseded dead letters after 30 days, the retention of their copies.
async fn delete_expired_dead_letters(conn: &mut Conn) -> Result<usize, db::Error> {
    let deleted = diesel::sql_query(format!(
        "delete from dead_letter where ctid = any(array(\
         select ctid from dead_letter \
         where superseded_by is not null and dead_at < clock_timestamp() - interval '30 days' \
         limit {PURGE_BATCH}))"
    ));
    Ok(deleted.execute(conn).await?)
}
