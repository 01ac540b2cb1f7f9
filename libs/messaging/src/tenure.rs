//! One relay's time with the lease: pending rows to the broker, batch after batch.
//!
//! Rows are read by id and deleted only after their acknowledgement, and only while the lease is
//! still ours; whatever goes wrong, the worst is that an event is sent again.

use std::collections::VecDeque;
use std::time::Duration;

use db::Db;
use diesel::dsl::{exists, not, sql};
use diesel::expression::SqlLiteral;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord};
use time::format_description::well_known::Rfc3339;
use tokio_util::sync::CancellationToken;

use crate::config::Quiet;
use crate::destinations::Destinations;
use crate::envelope;
use crate::lease::Lease;
use crate::outbox::PendingRow;
use crate::relay::RelayMetrics;
use crate::schema::{outbox, outbox_lease, outbox_parked};

/// Rows that are sent together: enough to fill batches, few enough to send again.
const BATCH: u16 = 500;
/// Batches of a backlog that wait to be acknowledged while the next is read: as many as keep the broker busy.
const UNDER_WAY: usize = 3;
const POLL_MIN: Duration = Duration::from_millis(25);
const POLL_MAX: Duration = Duration::from_secs(1);

#[diesel::declare_sql_function]
extern "SQL" {
    /// The time of the call, where `now()` would be that of the statement.
    fn clock_timestamp() -> Timestamptz;
}

/// Why a tenure ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TenureError {
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

/// A producer serves one tenure: what it still holds dies with it.
pub(crate) struct Tenure<'r> {
    pub db: &'r Db,
    pub source: &'r str,
    pub metrics: &'r RelayMetrics,
    pub lease: Lease,
    pub producer: FutureProducer<Quiet>,
}

/// Rows on their way to the broker, and what it will say of each.
#[derive(Default)]
struct InFlight {
    rows: Vec<PendingRow>,
    acks: Vec<DeliveryFuture>,
    /// What the broker has refused of the batches before, when these rows were already sent.
    behind: Vec<PendingRow>,
}

impl InFlight {
    fn ids(&self) -> impl Iterator<Item = i64> {
        self.rows.iter().map(|row| row.id)
    }
}

impl Tenure<'_> {
    /// Sends until `ending`, and then until nothing is left. While batches wait to be acknowledged and
    /// deleted, the next is read and sent.
    pub async fn relay(&self, ending: &CancellationToken) -> Result<(), TenureError> {
        let committed = self.db.committed();
        let mut destinations = Destinations::default();
        let mut pause = POLL_MIN;
        let mut under_way: VecDeque<InFlight> = VecDeque::new();
        loop {
            let ids: Vec<i64> = under_way.iter().flat_map(InFlight::ids).collect();
            // Behind a full batch there is more to send before the oldest has to be settled.
            let is_backlog = under_way.back().is_some_and(|last| last.rows.len() == usize::from(BATCH));
            let settled =
                if is_backlog { under_way.len().saturating_sub(UNDER_WAY - 1) } else { under_way.len() };
            let settled: Vec<InFlight> = under_way.drain(..settled).collect();
            let (mut next, refused) =
                tokio::try_join!(self.send_next(&ids, &mut destinations), self.settle(settled))?;
            for batch in under_way.iter_mut().chain([&mut next]) {
                batch.behind.extend(refused.iter().cloned());
            }
            // What was in flight is no reason to rest: more may have come behind it.
            let is_idle = next.rows.is_empty() && ids.is_empty();
            under_way.push_back(next);
            if !is_idle {
                pause = POLL_MIN;
                continue;
            }
            if ending.is_cancelled() {
                return Ok(());
            }
            tokio::select! {
                () = committed.wait() => pause = POLL_MIN,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(POLL_MAX),
                () = ending.cancelled() => {}
            }
        }
    }

    /// Reads the next rows, save those in flight, and enqueues them in id order, synchronously
    /// (concurrent sends could overtake each other on a full queue).
    async fn send_next(
        &self,
        in_flight: &[i64],
        destinations: &mut Destinations,
    ) -> Result<InFlight, TenureError> {
        let mut sent = InFlight::default();
        let mut refused: Vec<PendingRow> = Vec::new();
        let rows = self.read(in_flight, &destinations.missing()).await?;
        for row in rows {
            if refused.iter().any(|other| row.waits_behind(other))
                || !destinations.has(&self.producer, &row.topic).await
            {
                continue;
            }
            match self.enqueue(&row).await {
                Ok(ack) => {
                    sent.rows.push(row);
                    sent.acks.push(ack);
                }
                Err(error) if needs_a_person(&error) => {
                    self.park(&row, &error).await?;
                    refused.push(row);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(sent)
    }

    async fn read(&self, in_flight: &[i64], missing: &[&str]) -> Result<Vec<PendingRow>, TenureError> {
        let parked = outbox_parked::table
            .filter(outbox_parked::topic.eq(outbox::topic))
            .filter(outbox_parked::key.eq(outbox::key));
        let rows = outbox::table
            .filter(outbox::id.ne_all(in_flight))
            .filter(outbox::topic.ne_all(missing))
            .filter(not(exists(parked)))
            .filter(planned_afresh())
            .order(outbox::id)
            .limit(i64::from(BATCH))
            .select(PendingRow::as_select())
            .load(&mut self.db.conn().await?)
            .await?;
        Ok(rows)
    }

    async fn enqueue(&self, row: &PendingRow) -> Result<DeliveryFuture, KafkaError> {
        let id = row.event_id.to_string();
        let sequence = row.id.to_string();
        let time = row.created_at.format(&Rfc3339).unwrap_or_default();
        let kept = row.headers.as_object().into_iter().flatten();
        let kept = kept.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
        let own = [
            ("ce_specversion", "1.0"),
            ("ce_id", id.as_str()),
            ("ce_type", row.event_type.as_str()),
            ("ce_source", self.source),
            ("ce_time", time.as_str()),
            ("ce_subject", row.key.as_str()),
            ("ce_sequence", sequence.as_str()),
        ];
        let headers =
            envelope::headers(own.into_iter().chain(kept.filter(|(name, _)| !name.starts_with("ce_"))));
        let mut record = FutureRecord::to(&row.topic).key(&row.key).payload(&row.payload).headers(headers);
        loop {
            match self.producer.send_result(record) {
                Ok(ack) => return Ok(ack),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err((error, _)) => return Err(error),
            }
        }
    }

    /// Waits for every acknowledgement, then deletes what arrived. What the broker refused is parked, and answered.
    async fn settle(&self, batches: Vec<InFlight>) -> Result<Vec<PendingRow>, TenureError> {
        let mut refused: Vec<PendingRow> = Vec::new();
        for sent in batches {
            let mut arrived = Vec::with_capacity(sent.rows.len());
            // One after the other: most are there when the first is, and none wakes us before its turn.
            for (row, ack) in sent.rows.into_iter().zip(sent.acks) {
                match ack.await.map_err(|_| KafkaError::Canceled)? {
                    // Behind a refused one of its key it goes again after that one, should it be released.
                    Ok(_) if sent.behind.iter().chain(&refused).any(|other| row.waits_behind(other)) => {}
                    Ok(_) => {
                        let age = runtime::clock::now() - row.created_at;
                        self.metrics.commit_to_ack.observe(age.as_seconds_f64().max(0.0));
                        arrived.push(row.id);
                    }
                    Err((error, _)) if needs_a_person(&error) => {
                        self.park(&row, &error).await?;
                        refused.push(row);
                    }
                    Err((error, _)) => return Err(error.into()),
                }
            }
            self.delete(&arrived).await?;
        }
        Ok(refused)
    }

    async fn delete(&self, ids: &[i64]) -> Result<(), TenureError> {
        if ids.is_empty() {
            return Ok(());
        }
        let lease = outbox_lease::table
            .filter(outbox_lease::owner.eq(self.lease.owner))
            .filter(outbox_lease::epoch.eq(self.lease.epoch))
            .filter(outbox_lease::expires_at.gt(clock_timestamp()));
        let arrived = outbox::table.filter(outbox::id.eq_any(ids)).filter(exists(lease));
        let deleted =
            diesel::delete(arrived.filter(planned_afresh())).execute(&mut self.db.conn().await?).await?;
        if deleted == ids.len() { Ok(()) } else { Err(TenureError::Fenced) }
    }

    async fn park(&self, row: &PendingRow, error: &KafkaError) -> Result<(), TenureError> {
        tracing::error!(id = row.id, topic = row.topic, %error, "an event cannot be sent; its key waits");
        let parked = diesel::sql_query(
            "with moved as (delete from outbox where id = $1 \
             and exists (select from outbox_lease where owner = $2 and epoch = $3 and expires_at > clock_timestamp()) \
             returning *) \
             insert into outbox_parked (id, event_id, topic, key, type, payload, headers, created_at, error) \
             select id, event_id, topic, key, type, payload, headers, created_at, $4 from moved",
        )
        .bind::<BigInt, _>(row.id)
        .bind::<SqlUuid, _>(self.lease.owner)
        .bind::<BigInt, _>(self.lease.epoch)
        .bind::<Text, _>(error.to_string())
        .execute(&mut self.db.conn().await?)
        .await?;
        self.metrics.refused.inc();
        if parked == 1 { Ok(()) } else { Err(TenureError::Fenced) }
    }
}

/// True, as SQL that diesel prepares for one use. PostgreSQL would settle on a plan while the outbox is
/// all but empty, and then go through the whole of a backlog for each batch of it.
fn planned_afresh() -> SqlLiteral<Bool> {
    sql("true")
}

/// Whether this event would be refused however often it is sent, until somebody does something about it:
/// makes it smaller, or grants the right to write to its topic.
fn needs_a_person(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::MessageSizeTooLarge
                | RDKafkaErrorCode::InvalidMessageSize
                | RDKafkaErrorCode::InvalidMessage
                | RDKafkaErrorCode::TopicAuthorizationFailed
        )
    )
}
