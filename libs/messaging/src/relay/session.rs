//! One relay's time with the lease: pending rows to the broker, batch after batch.
//!
//! Rows are read by id and deleted only after their acknowledgement, and only while the lease is
//! still ours; whatever goes wrong, the worst is that an event is sent again.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use db::{Db, PooledConn};
use diesel::dsl::{exists, sql};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord, Producer, PurgeConfig};
use time::format_description::well_known::Rfc3339;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::config::Quiet;
use crate::relay::destinations::Destinations;
use crate::contract::message as envelope;
use crate::relay::lease::Lease;
use crate::outbox::PendingRow;
use crate::relay::{RelayMetrics, Setback};
use crate::schema::{outbox, outbox_lease};

/// Rows that are sent together: enough to fill batches, few enough to send again.
const BATCH: usize = 500;
/// Bytes of payloads that are sent together; the row that reaches it is the last. A relay holds a few batches.
const BATCH_BYTES: i64 = 4 << 20;
/// Batches of a backlog that wait to be acknowledged while the next is read: as many as keep the broker busy.
const UNDER_WAY: usize = 3;
/// How long a batch may hold up the next. What is not acknowledged by then is late: its partition has no leader, say.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same, while there is something late already.
const LITTLE_PATIENCE: Duration = Duration::from_millis(50);
/// Rows are read so often at most while no backlog waits. Under load each reading would find a row or two, and to plan it costs
/// PostgreSQL more than they do.
const PACE: Duration = Duration::from_millis(10);
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
    #[error("event {id} was refused: {error}")]
    Refused { id: i64, error: KafkaError },
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
    pub setback: Option<Setback>,
}

/// Rows on their way to the broker, and what it will say of each.
#[derive(Default)]
struct InFlight {
    rows: Vec<PendingRow>,
    acks: Vec<DeliveryFuture>,
    /// What the broker has refused of the batches before, when these rows were already sent.
    behind: Vec<PendingRow>,
    /// Whether more may be waiting behind them.
    is_full: bool,
}

/// What came of batches.
#[derive(Default)]
struct Settled {
    refused: Vec<PendingRow>,
    /// Not acknowledged in time.
    late: Vec<InFlight>,
    /// Acknowledged and deleted.
    arrived: usize,
}

/// What nothing more is sent of for now.
#[derive(Default)]
struct Waiting {
    topics: BTreeSet<String>,
    /// By topic and key.
    keys: BTreeSet<(String, String)>,
}

impl Waiting {
    /// The keys of late events, so that their order does not depend on what a broker takes after a refusal; and
    /// their topics, when there are as many as are held in memory.
    fn behind(late: &[InFlight]) -> Self {
        let rows = || late.iter().flat_map(|batch| &batch.rows);
        let bytes: usize = rows().map(PendingRow::bytes).sum();
        let is_full = rows().count() >= BATCH || i64::try_from(bytes).is_ok_and(|bytes| bytes >= BATCH_BYTES);
        let topics = rows().filter(|_| is_full).map(|row| row.topic.clone()).collect();
        Self { topics, keys: rows().map(|row| (row.topic.clone(), row.key.clone())).collect() }
    }
}

fn ids<'b>(batches: impl IntoIterator<Item = &'b InFlight>) -> Vec<i64> {
    batches.into_iter().flat_map(|batch| batch.rows.iter().map(|row| row.id)).collect()
}

impl Tenure<'_> {
    /// Sends until `ending`, and then until nothing is left. While batches wait to be acknowledged and
    /// deleted, the next is read and sent.
    pub async fn relay(&self, ending: &CancellationToken) -> Result<(), TenureError> {
        let mut committed = self.db.committed(db::Work::Events);
        let mut destinations = Destinations::default();
        let mut pause = POLL_MIN;
        let mut under_way: VecDeque<InFlight> = VecDeque::new();
        let mut late: Vec<InFlight> = Vec::new();
        loop {
            let was_under_way = under_way.iter().any(|batch| !batch.rows.is_empty());
            let in_flight = ids(under_way.iter().chain(&late));
            let waiting = Waiting::behind(&late);
            // Behind a full batch there is more to send before the oldest has to be settled.
            let is_backlog = under_way.back().is_some_and(|last| last.is_full);
            let settled =
                if is_backlog { under_way.len().saturating_sub(UNDER_WAY - 1) } else { under_way.len() };
            let settled = under_way.drain(..settled).collect();
            let read_at = Instant::now();
            let (mut next, settled) = tokio::try_join!(
                self.send_next(&in_flight, waiting, &mut destinations),
                self.settle(std::mem::take(&mut late), settled)
            )?;
            late = settled.late;
            for batch in under_way.iter_mut().chain([&mut next]).chain(&mut late) {
                batch.behind.extend(settled.refused.iter().cloned());
            }
            // What was in flight is no reason to rest: more may have come behind it.
            let is_idle = next.rows.is_empty() && settled.arrived == 0 && !was_under_way;
            let is_paced = !next.is_full;
            under_way.push_back(next);
            if !is_idle {
                pause = POLL_MIN;
                if is_paced {
                    sleep_until(read_at + PACE).await;
                }
                continue;
            }
            if !ending.is_cancelled() {
                tokio::select! {
                    () = committed.wait() => pause = POLL_MIN,
                    () = tokio::time::sleep(pause) => pause = (pause * 2).min(POLL_MAX),
                    () = ending.cancelled() => {}
                }
            } else if late.is_empty() {
                return Ok(());
            } else {
                tokio::time::sleep(POLL_MIN).await;
            }
        }
    }

    /// Drops what the producer has not sent, and waits a moment for the answers to what it has. `false`: something
    /// of it may still be written, behind what the next relay sends.
    pub async fn end(self) -> bool {
        let producer = self.producer;
        // librdkafka's calls block.
        let ended = tokio::task::spawn_blocking(move || {
            producer.purge(PurgeConfig::default().queue());
            producer.flush(PATIENCE)
        });
        matches!(ended.await, Ok(Ok(())))
    }

    /// Reads the next rows, save those in flight, and enqueues them in id order, synchronously
    /// (concurrent sends could overtake each other on a full queue).
    async fn send_next(
        &self,
        in_flight: &[i64],
        mut waiting: Waiting,
        destinations: &mut Destinations,
    ) -> Result<InFlight, TenureError> {
        let mut refused: Vec<PendingRow> = Vec::new();
        waiting.topics.extend(destinations.missing().into_iter().map(str::to_owned));
        let rows = self.read(in_flight, &waiting).await?;
        let bytes: usize = rows.iter().map(PendingRow::bytes).sum();
        let is_full = rows.len() == BATCH || i64::try_from(bytes).is_ok_and(|bytes| bytes >= BATCH_BYTES);
        let mut sent = InFlight { is_full, ..InFlight::default() };
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
                Err(error) => refused.push(self.refuse(row, error).await?),
            }
        }
        Ok(sent)
    }

    async fn read(&self, in_flight: &[i64], waiting: &Waiting) -> Result<Vec<PendingRow>, TenureError> {
        let (topics, keys): (Vec<_>, Vec<_>) = waiting.keys.iter().cloned().unzip();
        // SQL of one's own is prepared for one use. PostgreSQL would settle on a plan while the outbox is
        // all but empty, and then go through the whole of a backlog for each batch of it.
        let rows = diesel::sql_query(format!(
            "select * from (\
             select id, event_id, topic, key, type as event_type, payload, headers, created_at, \
             sum(octet_length(payload)) over (order by id rows between unbounded preceding and 1 preceding) as before \
             from outbox where id <> all($1) and topic <> all($2) \
             and (topic, key) not in (select * from unnest($3, $4)) and not exists (select from outbox_parked \
             where outbox_parked.topic = outbox.topic and outbox_parked.key = outbox.key) \
             order by id limit {BATCH}) as next where before is null or before < {BATCH_BYTES} order by id"
        ))
        .bind::<Array<BigInt>, _>(in_flight)
        .bind::<Array<Text>, _>(waiting.topics.iter().collect::<Vec<_>>())
        .bind::<Array<Text>, _>(topics)
        .bind::<Array<Text>, _>(keys)
        .load(&mut self.conn().await?)
        .await?;
        Ok(rows)
    }

    /// A connection of the pool, however long others keep it: who loses the lease meanwhile is cut off.
    async fn conn(&self) -> Result<PooledConn, TenureError> {
        loop {
            match self.db.conn().await {
                Err(db::Error::Unavailable(reason)) => {
                    tracing::debug!(reason, "the relay waits for a connection");
                    tokio::time::sleep(POLL_MIN).await;
                }
                conn => return Ok(conn?),
            }
        }
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
        // The copy of a dead letter says itself whose event it is.
        let own = own.into_iter().filter(|(name, _)| row.headers.get(name).is_none());
        let mut record =
            FutureRecord::to(&row.topic).key(&row.key).headers(envelope::headers(own.chain(kept)));
        record.payload = row.payload.as_ref();
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

    /// Deletes what has arrived, and parks what was refused. The batches that are late already are not waited for,
    /// the others for a while.
    async fn settle(&self, late: Vec<InFlight>, batches: Vec<InFlight>) -> Result<Settled, TenureError> {
        let mut settled = Settled::default();
        let (now, late_already) = (Instant::now(), late.len());
        let patience = if late_already == 0 { PATIENCE } else { LITTLE_PATIENCE };
        for (place, sent) in late.into_iter().chain(batches).enumerate() {
            let deadline = if place < late_already { now } else { now + patience };
            let mut arrived = Vec::with_capacity(sent.rows.len());
            let mut rest = InFlight { behind: sent.behind, ..InFlight::default() };
            // One after the other: most are there when the first is, and none wakes us before its turn.
            for (row, mut ack) in sent.rows.into_iter().zip(sent.acks) {
                let Ok(answer) = timeout_at(deadline, &mut ack).await else {
                    rest.rows.push(row);
                    rest.acks.push(ack);
                    continue;
                };
                let answer = answer.map_err(|_| KafkaError::Canceled);
                match answer.and_then(|answer| answer.map_err(|(error, _)| error)) {
                    // Behind a refused one of its key it goes again after that one, should it be released.
                    Ok(_)
                        if rest
                            .behind
                            .iter()
                            .chain(&settled.refused)
                            .any(|other| row.waits_behind(other)) => {}
                    Ok(_) => {
                        let age = runtime::clock::now() - row.created_at;
                        self.metrics.commit_to_ack.observe(age.as_seconds_f64().max(0.0));
                        arrived.push(row.id);
                    }
                    Err(error) => settled.refused.push(self.refuse(row, error).await?),
                }
            }
            self.delete(&arrived).await?;
            settled.arrived += arrived.len();
            if !rest.rows.is_empty() {
                settled.late.push(rest);
            }
        }
        Ok(settled)
    }

    /// Parks an event that somebody has to look at. Any other refusal ends the tenure: the next one tries again.
    async fn refuse(&self, row: PendingRow, error: KafkaError) -> Result<PendingRow, TenureError> {
        let is_hopeless = self.setback.is_some_and(|setback| setback.is_of(row.id))
            && self.producer.client().fatal_error().is_none();
        if !is_hopeless && !needs_a_person(&error) {
            return Err(TenureError::Refused { id: row.id, error });
        }
        self.park(&row, &error).await?;
        Ok(row)
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
        // As it is read: planned for as many rows as there are.
        let delete = diesel::delete(arrived.filter(sql::<Bool>("true")));
        let deleted = delete.execute(&mut self.conn().await?).await?;
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
        .execute(&mut self.conn().await?)
        .await?;
        self.metrics.refused.inc();
        if parked == 1 { Ok(()) } else { Err(TenureError::Fenced) }
    }
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
