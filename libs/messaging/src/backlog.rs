//! Metrics of the backlog in a service's tables, and the retention of the inbox.
//!
//! Every replica reports the metrics, so that a backlog is visible even while no relay runs.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use db::{Conn, Db};
use diesel::sql_types::{Array, BigInt, Double, Integer, Text};
use diesel_async::RunQueryDsl;
use prometheus_client::metrics::gauge::Gauge;
use runtime::Metrics;
use tokio_util::sync::CancellationToken;

use crate::config::Config;

const UPDATE_INTERVAL: Duration = Duration::from_secs(10);

pub(crate) struct Backlog {
    db: Db,
    /// The retention in days of each topic that is not compacted.
    retention_days: Vec<(String, i32)>,
    pending: Gauge,
    oldest: Gauge<f64, AtomicU64>,
    parked: Gauge,
    dead_letters: Gauge,
}

#[derive(diesel::QueryableByName)]
struct Counts {
    #[diesel(sql_type = BigInt)]
    pending: i64,
    #[diesel(sql_type = Double)]
    oldest: f64,
    #[diesel(sql_type = BigInt)]
    parked: i64,
    #[diesel(sql_type = BigInt)]
    dead_letters: i64,
}

impl Backlog {
    pub(crate) fn new(db: Db, config: &Config, metrics: &Metrics) -> anyhow::Result<Self> {
        let backlog = Self {
            db,
            retention_days: config.topics.declaration()?.retention_days(),
            pending: Gauge::default(),
            oldest: Gauge::default(),
            parked: Gauge::default(),
            dead_letters: Gauge::default(),
        };
        metrics.register(|registry| {
            registry.register("outbox_pending", "Events not acknowledged yet", backlog.pending.clone());
            let oldest = backlog.oldest.clone();
            registry.register("outbox_oldest_seconds", "Age of the oldest pending event", oldest);
            registry.register("outbox_parked", "Events that the broker rejects", backlog.parked.clone());
            registry.register("dead_letters", "Dead letters", backlog.dead_letters.clone());
        });
        Ok(backlog)
    }

    /// Updates the metrics and deletes expired inbox rows until `ending`, once per
    /// [`UPDATE_INTERVAL`].
    ///
    /// Never fails. [`Process::spawn`](runtime::Process::spawn) requires the `Result`.
    pub(crate) async fn run(self, ending: CancellationToken) -> anyhow::Result<()> {
        loop {
            if let Err(error) = self.update().await {
                tracing::warn!(%error, "failed to read the backlog or to delete expired inbox rows");
            }
            tokio::select! {
                () = tokio::time::sleep(UPDATE_INTERVAL) => {}
                () = ending.cancelled() => return Ok(()),
            }
        }
    }

    async fn update(&self) -> Result<(), db::Error> {
        let mut conn = self.db.conn().await?;
        self.count(&mut conn).await?;
        delete_expired_events(&mut conn).await?;
        self.delete_expired_keys(&mut conn).await
    }

    async fn count(&self, conn: &mut Conn) -> Result<(), db::Error> {
        let counts = diesel::sql_query(
            "select (select count(*) from outbox) as pending, \
             coalesce((select extract(epoch from clock_timestamp() - created_at)::float8 from outbox \
             order by id limit 1), 0) as oldest, \
             (select count(*) from outbox_parked) as parked, \
             (select count(*) from dead_letter) as dead_letters",
        )
        .get_result::<Counts>(conn)
        .await?;
        self.pending.set(counts.pending);
        self.oldest.set(counts.oldest);
        self.parked.set(counts.parked);
        self.dead_letters.set(counts.dead_letters);
        Ok(())
    }

    /// Deletes the inbox rows of keys after twice the retention of their topic. Kafka has deleted
    /// the messages of these keys by then. Rows of compacted and of undeclared topics are kept,
    /// since Kafka may keep their messages for ever.
    async fn delete_expired_keys(&self, conn: &mut Conn) -> Result<(), db::Error> {
        let (topics, days): (Vec<_>, Vec<_>) = self.retention_days.iter().cloned().unzip();
        diesel::sql_query(
            "delete from inbox where ctid = any(array(\
             select inbox.ctid from inbox join unnest($1, $2) as retention (topic, days) using (topic) \
             where not blocked and seen_on < (clock_timestamp() at time zone 'UTC')::date - 2 * days \
             limit 10000 for update of inbox skip locked))",
        )
        .bind::<Array<Text>, _>(topics)
        .bind::<Array<Integer>, _>(days)
        .execute(conn)
        .await?;
        Ok(())
    }
}

/// Deletes events after 30 days. Kafka has dropped their messages by then, so none is delivered
/// again.
async fn delete_expired_events(conn: &mut Conn) -> Result<(), db::Error> {
    diesel::sql_query(
        "delete from inbox_event where ctid = any(array(\
         select ctid from inbox_event where seen_at < clock_timestamp() - interval '30 days' \
         order by seen_at limit 10000))",
    )
    .execute(conn)
    .await?;
    Ok(())
}
