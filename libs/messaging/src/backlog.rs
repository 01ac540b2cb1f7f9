//! What waits in a service's tables, as metrics that every replica reports, so that a backlog is seen
//! even while nobody relays; and the inbox's memory, kept within bounds.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use db::Db;
use diesel::sql_types::{Array, BigInt, Double, Integer, Text};
use diesel_async::RunQueryDsl;
use prometheus_client::metrics::gauge::Gauge;
use runtime::Metrics;
use tokio_util::sync::CancellationToken;

use crate::Config;

const INTERVAL: Duration = Duration::from_secs(10);

pub(crate) struct Backlog {
    db: Db,
    retention: Vec<(String, i32)>,
    pending: Gauge,
    oldest: Gauge<f64, AtomicU64>,
    parked: Gauge,
    dead: Gauge,
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
    dead: i64,
}

impl Backlog {
    pub(crate) fn new(db: Db, metrics: &Metrics, config: &Config) -> anyhow::Result<Self> {
        let backlog = Self {
            db,
            retention: config.retention()?,
            pending: Gauge::default(),
            oldest: Gauge::default(),
            parked: Gauge::default(),
            dead: Gauge::default(),
        };
        metrics.register(|registry| {
            registry.register("outbox_pending", "Events that wait to be sent", backlog.pending.clone());
            registry.register("outbox_oldest_seconds", "Age of the oldest of them", backlog.oldest.clone());
            registry.register("outbox_parked", "Events that wait for a person", backlog.parked.clone());
            registry.register("dead_letters", "Messages that were put aside", backlog.dead.clone());
        });
        Ok(backlog)
    }

    /// Looks every ten seconds until `ending`.
    ///
    /// # Errors
    /// None today; the signature is that of a part of a service.
    pub(crate) async fn watch(self, ending: CancellationToken) -> anyhow::Result<()> {
        loop {
            if let Err(error) = self.look().await {
                tracing::warn!(%error, "the backlog cannot be read");
            }
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                () = ending.cancelled() => return Ok(()),
            }
        }
    }

    async fn look(&self) -> Result<(), db::Error> {
        let mut conn = self.db.conn().await?;
        let counts = diesel::sql_query(
            "select (select count(*) from outbox) as pending, \
             coalesce((select extract(epoch from clock_timestamp() - created_at)::float8 from outbox order by id limit 1), 0) as oldest, \
             (select count(*) from outbox_parked) as parked, \
             (select count(*) from dead_letter) as dead",
        )
        .get_result::<Counts>(&mut conn)
        .await?;
        self.pending.set(counts.pending);
        self.oldest.set(counts.oldest);
        self.parked.set(counts.parked);
        self.dead.set(counts.dead);
        // Kafka has long dropped the messages of then, so none of them can come again.
        diesel::sql_query(
            "delete from inbox_event where ctid = any(array(\
             select ctid from inbox_event where seen_at < clock_timestamp() - interval '30 days' \
             order by seen_at limit 10000))",
        )
        .execute(&mut conn)
        .await?;
        // Twice as long, since what is in Kafka still must be known. A topic that is compacted keeps what is newest for
        // ever, and one that is not declared who knows how long.
        let (topics, days): (Vec<_>, Vec<_>) = self.retention.iter().cloned().unzip();
        diesel::sql_query(
            "delete from inbox where ctid = any(array(\
             select inbox.ctid from inbox join unnest($1, $2) as kept (topic, days) using (topic) \
             where not blocked and seen_on < (clock_timestamp() at time zone 'UTC')::date - 2 * days \
             limit 10000 for update of inbox skip locked))",
        )
        .bind::<Array<Text>, _>(topics)
        .bind::<Array<Integer>, _>(days)
        .execute(&mut conn)
        .await?;
        Ok(())
    }
}
