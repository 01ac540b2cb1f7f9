//! The relay: pending rows to the broker, by the one replica that holds the lease.
//!
//! Rows are read by id and deleted only after their acknowledgement, and only while the lease is
//! still ours; whatever goes wrong, the worst is that an event is sent again.

use std::time::Duration;

use db::Db;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use futures_util::future::join_all;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord};
use runtime::Metrics;
use time::format_description::well_known::Rfc3339;
use tokio_util::sync::CancellationToken;

use crate::lease::{Acquired, Lease};
use crate::outbox::{EventId, PendingRow};
use crate::schema::{outbox, outbox_parked};
use crate::{Bus, Config, envelope};

/// Rows that are in flight together: enough to fill batches, few enough to send again.
const BATCH: i64 = 500;
const POLL_MIN: Duration = Duration::from_millis(25);
const POLL_MAX: Duration = Duration::from_secs(1);
/// How long a stopping relay goes on sending what its process has written: less than the phase is given.
const LAST_BATCHES: Duration = Duration::from_secs(4);

/// Carries one service's outbox to Kafka.
pub(crate) struct Relay {
    db: Db,
    config: Config,
    source: String,
    metrics: RelayMetrics,
}

#[derive(Clone)]
struct RelayMetrics {
    takeovers: Counter,
    fenced: Counter,
    refused: Counter,
    commit_to_ack: Histogram,
}

impl RelayMetrics {
    fn register(metrics: &Metrics) -> Self {
        let kept = Self {
            takeovers: Counter::default(),
            fenced: Counter::default(),
            refused: Counter::default(),
            commit_to_ack: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
        };
        metrics.register(|registry| {
            registry.register("outbox_takeovers", "Leases taken", kept.takeovers.clone());
            registry.register("outbox_fenced", "Acknowledgements after a lost lease", kept.fenced.clone());
            registry.register(
                "outbox_refused",
                "Events parked, since they can never be sent",
                kept.refused.clone(),
            );
            registry.register(
                "outbox_commit_to_ack_seconds",
                "From an event's insertion to its acknowledgement",
                kept.commit_to_ack.clone(),
            );
        });
        kept
    }
}

/// Why a tenure ended early.
#[derive(Debug, thiserror::Error)]
enum TenureError {
    #[error(transparent)]
    Db(#[from] db::Error),
    #[error("the broker refused: {0}")]
    Kafka(#[from] KafkaError),
    #[error("the lease was lost")]
    Fenced,
}

impl From<diesel::result::Error> for TenureError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Db(error.into())
    }
}

impl Relay {
    pub(crate) fn new(bus: &Bus, metrics: &Metrics, config: Config) -> Self {
        let metrics = RelayMetrics::register(metrics);
        Self { db: bus.db.clone(), config, source: format!("/{}", bus.service), metrics }
    }

    /// Relays until `ending` and until nothing is left to send; failures are logged and tried again.
    ///
    /// # Errors
    /// None today; the signature is that of a part of a service.
    pub(crate) async fn run(self, ending: CancellationToken) -> anyhow::Result<()> {
        let owner = EventId::generate().into();
        while !ending.is_cancelled() {
            let pause = match Lease::acquire(&self.db, owner).await {
                Ok(Acquired::Lease(lease)) => {
                    self.serve_tenure(lease, &ending).await;
                    POLL_MIN
                }
                // Not a moment later than its lease runs out.
                Ok(Acquired::HeldFor(remaining)) => remaining.clamp(POLL_MIN, POLL_MAX),
                Err(error) => {
                    tracing::warn!(%error, "the outbox lease cannot be asked for");
                    POLL_MAX
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = ending.cancelled() => {}
            }
        }
        Ok(())
    }

    async fn serve_tenure(&self, lease: Lease, ending: &CancellationToken) {
        self.metrics.takeovers.inc();
        tracing::info!(epoch = lease.epoch, "relaying");
        let cut_off = async {
            ending.cancelled().await;
            tokio::time::sleep(LAST_BATCHES).await;
        };
        tokio::select! {
            result = self.relay(lease, ending) => match result {
                Ok(()) => {}
                Err(TenureError::Fenced) => { self.metrics.fenced.inc(); }
                Err(error) => tracing::warn!(error = format!("{:#}", anyhow::Error::from(error)), "relaying was interrupted"),
            },
            result = lease.keep(&self.db) => match result {
                Ok(()) => tracing::warn!(epoch = lease.epoch, "the outbox lease was lost"),
                Err(error) => tracing::warn!(%error, "the outbox lease cannot be renewed"),
            },
            () = cut_off => tracing::warn!("what is left to send is left to the next relay"),
        }
        if let Err(error) = lease.release(&self.db).await {
            tracing::warn!(%error, "the outbox lease will run out by itself");
        }
    }

    /// Sends batch after batch. A producer serves one tenure: what it still holds dies with it.
    async fn relay(&self, lease: Lease, ending: &CancellationToken) -> Result<(), TenureError> {
        let producer: FutureProducer = self.config.producer().create()?;
        let committed = self.db.committed();
        let mut pause = POLL_MIN;
        loop {
            let rows = self.read_batch().await?;
            if rows.is_empty() {
                if ending.is_cancelled() {
                    return Ok(());
                }
                tokio::select! {
                    () = committed.wait() => pause = POLL_MIN,
                    () = tokio::time::sleep(pause) => pause = (pause * 2).min(POLL_MAX),
                    () = ending.cancelled() => {}
                }
                continue;
            }
            pause = POLL_MIN;
            let parked = self.send_batch(&producer, &rows).await?;
            for (row, error) in &parked {
                self.park(lease, row, error).await?;
            }
            let sent = rows
                .iter()
                .filter(|row| parked.iter().all(|(other, _)| !row.waits_behind(other) && row.id != other.id));
            self.delete(lease, sent.map(|row| row.id).collect()).await?;
            let now = runtime::clock::now();
            for row in &rows {
                self.metrics.commit_to_ack.observe((now - row.created_at).as_seconds_f64().max(0.0));
            }
        }
    }

    async fn read_batch(&self) -> Result<Vec<PendingRow>, db::Error> {
        let mut conn = self.db.conn().await?;
        let rows = outbox::table
            .filter(diesel::dsl::not(diesel::dsl::exists(
                outbox_parked::table
                    .filter(outbox_parked::topic.eq(outbox::topic))
                    .filter(outbox_parked::key.eq(outbox::key)),
            )))
            .order(outbox::id)
            .limit(BATCH)
            .select(PendingRow::as_select())
            .load(&mut conn)
            .await?;
        Ok(rows)
    }

    /// Enqueues in id order, synchronously (concurrent sends could overtake each other on a full
    /// queue), then waits for every acknowledgement. Answers what can never be sent.
    async fn send_batch<'r>(
        &self,
        producer: &FutureProducer,
        rows: &'r [PendingRow],
    ) -> Result<Vec<(&'r PendingRow, KafkaError)>, TenureError> {
        let mut parked: Vec<(&PendingRow, KafkaError)> = Vec::new();
        let mut acks: Vec<(&PendingRow, DeliveryFuture)> = Vec::with_capacity(rows.len());
        for row in rows {
            if parked.iter().any(|(other, _)| row.waits_behind(other)) {
                continue;
            }
            match self.enqueue(producer, row).await {
                Ok(ack) => acks.push((row, ack)),
                Err(error) if never_sendable(&error) => parked.push((row, error)),
                Err(error) => return Err(error.into()),
            }
        }
        let (rows, acks): (Vec<_>, Vec<_>) = acks.into_iter().unzip();
        for (row, ack) in rows.into_iter().zip(join_all(acks).await) {
            match ack {
                Ok(Ok(_)) => {}
                Ok(Err((error, _))) if never_sendable(&error) => parked.push((row, error)),
                Ok(Err((error, _))) => return Err(error.into()),
                Err(_) => return Err(KafkaError::Canceled.into()),
            }
        }
        Ok(parked)
    }

    async fn enqueue(
        &self,
        producer: &FutureProducer,
        row: &PendingRow,
    ) -> Result<DeliveryFuture, KafkaError> {
        let id = row.event_id.to_string();
        let sequence = row.id.to_string();
        let time = row.created_at.format(&Rfc3339).unwrap_or_default();
        let kept = row.headers.as_object().into_iter().flatten();
        let kept = kept.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
        let own = [
            ("ce_specversion", "1.0"),
            ("ce_id", id.as_str()),
            ("ce_type", row.event_type.as_str()),
            ("ce_source", self.source.as_str()),
            ("ce_time", time.as_str()),
            ("ce_subject", row.key.as_str()),
            ("ce_sequence", sequence.as_str()),
        ];
        let headers =
            envelope::headers(own.into_iter().chain(kept.filter(|(name, _)| !name.starts_with("ce_"))));
        let mut record = FutureRecord::to(&row.topic).key(&row.key).payload(&row.payload).headers(headers);
        loop {
            match producer.send_result(record) {
                Ok(ack) => return Ok(ack),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err((error, _)) => return Err(error),
            }
        }
    }

    async fn delete(&self, lease: Lease, ids: Vec<i64>) -> Result<(), TenureError> {
        let expected = ids.len();
        let mut conn = self.db.conn().await?;
        let deleted = diesel::sql_query(
            "delete from outbox where id = any($1) \
             and exists (select from outbox_lease where owner = $2 and epoch = $3 and expires_at > clock_timestamp())",
        )
        .bind::<Array<BigInt>, _>(ids)
        .bind::<SqlUuid, _>(lease.owner)
        .bind::<BigInt, _>(lease.epoch)
        .execute(&mut conn)
        .await?;
        if deleted == expected { Ok(()) } else { Err(TenureError::Fenced) }
    }

    async fn park(&self, lease: Lease, row: &PendingRow, error: &KafkaError) -> Result<(), TenureError> {
        tracing::error!(id = row.id, topic = row.topic, %error, "an event can never be sent; its key waits");
        let mut conn = self.db.conn().await?;
        let parked = diesel::sql_query(
            "with moved as (delete from outbox where id = $1 \
             and exists (select from outbox_lease where owner = $2 and epoch = $3 and expires_at > clock_timestamp()) \
             returning *) \
             insert into outbox_parked (id, event_id, topic, key, type, payload, headers, created_at, error) \
             select id, event_id, topic, key, type, payload, headers, created_at, $4 from moved",
        )
        .bind::<BigInt, _>(row.id)
        .bind::<SqlUuid, _>(lease.owner)
        .bind::<BigInt, _>(lease.epoch)
        .bind::<Text, _>(error.to_string())
        .execute(&mut conn)
        .await?;
        self.metrics.refused.inc();
        if parked == 1 { Ok(()) } else { Err(TenureError::Fenced) }
    }
}

/// Whether the broker or its client would refuse this message however often it is sent.
fn never_sendable(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::MessageSizeTooLarge
                | RDKafkaErrorCode::InvalidMessageSize
                | RDKafkaErrorCode::InvalidMessage
        )
    )
}
