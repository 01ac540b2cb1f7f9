//! A relay session, which sends pending rows to the broker, batch after batch, while it holds the
//! lease.
//!
//! Rows are read in id order. A row is deleted after its acknowledgement, and only under the lease.
//! The worst result of a failure is that an event is sent again.

use std::collections::VecDeque;
use std::time::Duration;

use db::Db;
use futures_util::FutureExt;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord, Producer, PurgeConfig};
use time::format_description::well_known::Rfc3339;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::batch::{Batch, Exclusions, PendingRow, RowId, Settled, is_full_batch};
use super::destinations::Destinations;
use super::error::{RepeatedRejection, SessionError};
use super::lease::Lease;
use super::metrics::RelayMetrics;
use super::rows::OutboxRows;
use super::upkeep::LaneUpkeep;
use crate::config::QuietContext;

/// The number of batches in flight during a backlog. Three are enough to keep the broker busy.
const MAX_BATCHES_IN_FLIGHT: usize = 3;
/// The maximum time for which a batch delays the next one. After this time, rows without an
/// acknowledgement are late, for example because their partition has no leader.
const DELIVERY_ACK_TIMEOUT: Duration = Duration::from_secs(1);
/// Replaces [`DELIVERY_ACK_TIMEOUT`] while there are late rows.
const SHORT_DELIVERY_ACK_TIMEOUT: Duration = Duration::from_millis(50);
/// The shortest interval between reads of an outbox without a backlog. Under load each read would
/// otherwise return one or two rows, and its planning would cost PostgreSQL more than its rows.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(10);
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(25);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);
const QUEUE_FULL_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// A lease term of a relay, with a producer that is discarded at its end.
pub(super) struct RelaySession<'r> {
    pub db: &'r Db,
    pub source: &'r str,
    pub metrics: &'r RelayMetrics,
    pub lease: Lease,
    pub producer: FutureProducer<QuietContext>,
    pub repeated_rejection: Option<RepeatedRejection>,
}

/// The sent batches of a session whose rows are not deleted yet.
struct Pipeline<'s> {
    session: &'s RelaySession<'s>,
    destinations: Destinations,
    upkeep: LaneUpkeep,
    in_flight: VecDeque<Batch>,
    /// Batches with rows that were not acknowledged in time.
    late: Vec<Batch>,
}

/// The result of one round of the pipeline.
enum Progress {
    /// A full batch was sent, so more rows are pending.
    FullBatch,
    /// Rows were sent or settled, or were in flight. More rows may have been committed since.
    PartialBatch,
    /// Nothing was sent or settled.
    Idle,
}

impl RelaySession<'_> {
    /// Sends events until `stopping`, and then until no event is left.
    pub async fn relay(&self, stopping: &CancellationToken) -> Result<(), SessionError> {
        let mut committed = self.db.listen(crate::outbox::EVENTS_APPENDED);
        let mut pipeline = Pipeline::new(self);
        let mut pause = MIN_POLL_INTERVAL;
        loop {
            let read_at = Instant::now();
            match pipeline.advance().await? {
                Progress::FullBatch => pause = MIN_POLL_INTERVAL,
                Progress::PartialBatch => {
                    pause = MIN_POLL_INTERVAL;
                    sleep_until(read_at + MIN_READ_INTERVAL).await;
                }
                Progress::Idle if !stopping.is_cancelled() => tokio::select! {
                    () = committed.wait() => pause = MIN_POLL_INTERVAL,
                    () = tokio::time::sleep(pause) => pause = (pause * 2).min(MAX_POLL_INTERVAL),
                    () = stopping.cancelled() => {}
                },
                Progress::Idle if pipeline.late.is_empty() => {
                    if !pipeline.upkeep.run(self.db).await {
                        return Ok(());
                    }
                }
                Progress::Idle => tokio::time::sleep(MIN_POLL_INTERVAL).await,
            }
        }
    }

    /// Discards messages that the producer has not sent, and waits for the acknowledgements of the
    /// sent ones. Returns false if some acknowledgements are missing. The broker may then write
    /// such a message after later ones of the next relay.
    pub async fn close(self) -> bool {
        let producer = self.producer;
        // librdkafka's calls block.
        let closed = tokio::task::spawn_blocking(move || {
            producer.purge(PurgeConfig::default().queue());
            producer.flush(DELIVERY_ACK_TIMEOUT)
        });
        matches!(closed.await, Ok(Ok(())))
    }

    fn rows(&self) -> OutboxRows<'_> {
        OutboxRows { db: self.db, lease: self.lease }
    }

    /// Reads the next rows and enqueues them one by one, in id order. Concurrent sends could
    /// overtake each other when the producer's queue is full.
    async fn send_next(
        &self,
        in_flight: &[i64],
        mut exclusions: Exclusions,
        destinations: &mut Destinations,
    ) -> Result<Batch, SessionError> {
        let mut rejected: Vec<PendingRow> = Vec::new();
        exclusions.topics.extend(destinations.topics_to_skip().into_iter().map(str::to_owned));
        let rows = self.rows().read(in_flight, &exclusions).await?;
        let mut batch = Batch { is_full: is_full_batch(rows.iter()), ..Batch::default() };
        for row in rows {
            if rejected.iter().any(|other| row.waits_behind(other))
                || !destinations.has_topic(&self.producer, &row.topic).await
            {
                continue;
            }
            match self.enqueue(&row).await {
                Ok(ack) => {
                    batch.rows.push(row);
                    batch.acks.push(ack);
                }
                // librdkafka caches the authorization error, so it rejects every later row of the
                // topic.
                Err(error) if is_forbidden(&error) => destinations.hold_forbidden(&row.topic),
                Err(error) => rejected.push(self.reject(row, error).await?),
            }
        }
        Ok(batch)
    }

    async fn enqueue(&self, row: &PendingRow) -> Result<DeliveryFuture, KafkaError> {
        let mut record = FutureRecord::to(&row.topic).key(&row.key).headers(headers(row, self.source));
        record.payload = row.payload.as_ref();
        loop {
            match self.producer.send_result(record) {
                Ok(ack) => return Ok(ack),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), returned)) => {
                    record = returned;
                    tokio::time::sleep(QUEUE_FULL_RETRY_INTERVAL).await;
                }
                Err((error, _)) => return Err(error),
            }
        }
    }

    /// Deletes delivered rows and parks rejected ones. Rows of a forbidden topic stay. Waits for
    /// the acknowledgements of `due` batches, but not for those of `late` ones.
    async fn settle(&self, late: Vec<Batch>, due: Vec<Batch>) -> Result<Settled, SessionError> {
        let mut settled = Settled::default();
        let now = Instant::now();
        let timeout = if late.is_empty() { DELIVERY_ACK_TIMEOUT } else { SHORT_DELIVERY_ACK_TIMEOUT };
        for batch in late {
            self.settle_batch(batch, now, &mut settled).await?;
        }
        for batch in due {
            self.settle_batch(batch, now + timeout, &mut settled).await?;
        }
        Ok(settled)
    }

    async fn settle_batch(
        &self,
        batch: Batch,
        deadline: Instant,
        settled: &mut Settled,
    ) -> Result<(), SessionError> {
        let mut delivered = Vec::with_capacity(batch.rows.len());
        let mut late = Batch { rejected_since: batch.rejected_since, ..Batch::default() };
        // The acknowledgements are awaited one by one, so that a later one does not wake this task
        // early. When the first one has arrived, most others have as well.
        for (row, mut ack) in batch.rows.into_iter().zip(batch.acks) {
            let Ok(result) = timeout_at(deadline, &mut ack).await else {
                late.rows.push(row);
                late.acks.push(ack);
                continue;
            };
            let result = result.map_err(|_| KafkaError::Canceled);
            match result.and_then(|result| result.map_err(|(error, _)| error)) {
                Ok(_) => {
                    // A row behind a rejected row stays in the outbox. It is sent again after an
                    // operator releases or discards the rejected row.
                    let mut rejected = late.rejected_since.iter().chain(&settled.rejected);
                    if !rejected.any(|other| row.waits_behind(other)) {
                        let age = runtime::clock::now() - row.created_at;
                        self.metrics.commit_to_ack.observe(age.as_seconds_f64().max(0.0));
                        delivered.push(RowId { topic: row.topic, id: row.id });
                    }
                }
                Err(error) if is_forbidden(&error) => {
                    settled.forbidden.insert(row.topic.clone());
                    settled.rejected.push(row);
                }
                Err(error) => settled.rejected.push(self.reject(row, error).await?),
            }
        }
        self.rows().delete(&delivered).await?;
        settled.delivered.extend(delivered);
        if !late.rows.is_empty() {
            settled.late.push(late);
        }
        Ok(())
    }

    /// Parks a row if its rejection is permanent or this is its last attempt. Any other rejection
    /// ends the session, and the next session sends the row again.
    async fn reject(&self, row: PendingRow, error: KafkaError) -> Result<PendingRow, SessionError> {
        let is_last_attempt =
            self.repeated_rejection.is_some_and(|repeated| repeated.is_last_attempt_of(row.id));
        // A fatal error of the client is not caused by the event.
        let is_exhausted = is_last_attempt && self.producer.client().fatal_error().is_none();
        if !is_exhausted && !is_permanent(&error) {
            return Err(SessionError::Rejected { id: row.id, error });
        }
        let (id, topic) = (row.id, &row.topic);
        tracing::error!(id, topic, %error, "event rejected by the broker; later events of its key wait");
        self.rows().park(&row, &error).await?;
        self.metrics.parked.inc();
        Ok(row)
    }
}

impl<'s> Pipeline<'s> {
    fn new(session: &'s RelaySession<'s>) -> Self {
        Self {
            session,
            destinations: Destinations::default(),
            upkeep: LaneUpkeep::new(),
            in_flight: VecDeque::new(),
            late: Vec::new(),
        }
    }

    /// Sends the next batch and concurrently settles those that are due.
    async fn advance(&mut self) -> Result<Progress, SessionError> {
        let had_rows_in_flight = self.in_flight.iter().any(|batch| !batch.rows.is_empty());
        let ids = self.row_ids();
        let exclusions = Exclusions::behind(&self.late);
        let (late, due) = (std::mem::take(&mut self.late), self.take_due());
        let (next, settled, has_new_lanes) = tokio::try_join!(
            self.session.send_next(&ids, exclusions, &mut self.destinations),
            self.session.settle(late, due),
            self.upkeep.run_if_due(self.session.db).map(Ok)
        )?;
        for row in &settled.delivered {
            self.upkeep.count_deleted(&row.topic);
            self.destinations.release(&row.topic);
        }
        for topic in &settled.forbidden {
            self.destinations.hold_forbidden(topic);
        }
        let held = self.destinations.held_count() + self.upkeep.growing_count();
        self.session.metrics.held_topics.set(i64::try_from(held).unwrap_or(i64::MAX));
        // More rows may have been committed while rows were in flight, so the relay reads again.
        let is_idle =
            next.rows.is_empty() && settled.delivered.is_empty() && !had_rows_in_flight && !has_new_lanes;
        let is_full = next.is_full;
        self.in_flight.push_back(next);
        self.late = settled.late;
        for batch in self.in_flight.iter_mut().chain(&mut self.late) {
            batch.rejected_since.extend(settled.rejected.iter().cloned());
        }
        Ok(match (is_idle, is_full) {
            (true, _) => Progress::Idle,
            (false, true) => Progress::FullBatch,
            (false, false) => Progress::PartialBatch,
        })
    }

    fn row_ids(&self) -> Vec<i64> {
        let batches = self.in_flight.iter().chain(&self.late);
        batches.flat_map(|batch| batch.rows.iter().map(|row| row.id)).collect()
    }

    /// Removes and returns the batches that are to be settled now. During a backlog the newest
    /// batches stay in flight, so that the broker has work while the next batch is read.
    fn take_due(&mut self) -> Vec<Batch> {
        let is_backlog = self.in_flight.back().is_some_and(|last| last.is_full);
        let kept = if is_backlog { MAX_BATCHES_IN_FLIGHT - 1 } else { 0 };
        let due = self.in_flight.len().saturating_sub(kept);
        self.in_flight.drain(..due).collect()
    }
}

/// Returns the CloudEvents headers of a row, followed by the headers that the row stores. Stored
/// headers take precedence: the copy of a dead letter has the CloudEvents headers of its original.
fn headers(row: &PendingRow, source: &str) -> OwnedHeaders {
    let id = row.event_id.to_string();
    let sequence = row.id.to_string();
    let time = row.created_at.format(&Rfc3339).unwrap_or_default();
    let stored = row.headers.as_object().into_iter().flatten();
    let stored = stored.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
    let context = [
        ("ce_specversion", "1.0"),
        ("ce_id", id.as_str()),
        ("ce_type", row.event_type.as_str()),
        ("ce_source", source),
        ("ce_time", time.as_str()),
        ("ce_subject", row.key.as_str()),
        ("ce_sequence", sequence.as_str()),
    ];
    let context = context.into_iter().filter(|(name, _)| row.headers.get(name).is_none());
    context
        .chain(stored)
        .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: Some(value) }))
}

/// Returns true if the service may not write to the topic. The event itself may be valid.
fn is_forbidden(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::TopicAuthorizationFailed)
}

/// Returns true if the broker rejects the event until an operator intervenes: the event is too
/// large or invalid.
fn is_permanent(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::MessageSizeTooLarge
                | RDKafkaErrorCode::InvalidMessageSize
                | RDKafkaErrorCode::InvalidMessage
        )
    )
}
