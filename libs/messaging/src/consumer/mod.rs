//! The consumer, which applies each message once, in order per key, in the transaction of its
//! receipt.
//!
//! Partitions are processed concurrently, and the messages of one partition in order. A message
//! that is retried therefore delays only its own partition. Messages that are ready together share
//! a transaction.

mod dead_letter;
mod delivery;
pub(crate) mod entity;
pub(crate) mod inbox;
mod metrics;
mod outage;
mod partitions;
mod positions;

use std::sync::Arc;
use std::time::Duration;

use db::Db;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use rdkafka::error::KafkaResult;
use runtime::Metrics;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::metrics::ConsumerMetrics;
use self::outage::OutageDetector;
use self::partitions::{BufferBudget, Delivery, FetchControl, Partitions};
use crate::config::Config;
use crate::contract::message::Message;
use crate::failure::Failure;
use crate::history;
use crate::subscription::Subscription;

/// The interval at which a consumer compares the history of the database with that of its session.
/// Each transaction of messages compares the history, too, but an idle consumer has none.
const HISTORY_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The interval at which a consumer updates the metric of an outage.
const OUTAGE_UPDATE_INTERVAL: Duration = Duration::from_secs(5);
/// The pause between two sessions.
const SESSION_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The number of transactions in which the consumers of a process apply messages at the same time.
/// Without this limit they could use all database connections of their service.
const MAX_CONCURRENT_TRANSACTIONS: usize = 4;

/// Runs one [`Subscription`].
pub(crate) struct Consumer {
    db: Db,
    service: &'static str,
    config: Config,
    subscription: Subscription,
    limits: ConsumerLimits,
    outage: OutageDetector,
    metrics: ConsumerMetrics,
}

/// The limits that the consumers of a process share.
#[derive(Clone)]
pub(crate) struct ConsumerLimits {
    concurrency: Arc<Semaphore>,
    buffer: Arc<BufferBudget>,
}

impl ConsumerLimits {
    /// Returns limits with a buffer of `buffer_bytes` for all consumers together.
    pub fn new(buffer_bytes: usize) -> Self {
        Self {
            concurrency: Arc::new(Semaphore::new(MAX_CONCURRENT_TRANSACTIONS)),
            buffer: Arc::new(BufferBudget::new(buffer_bytes)),
        }
    }
}

/// A membership in the group, in one history of the database.
struct Session {
    history: String,
    /// Cancelled when the session ends or the service stops.
    stopping: CancellationToken,
}

impl Session {
    /// Ends the session, because the database has another history. Returns the failure of the
    /// message.
    fn end_in_old_history(&self) -> Failure {
        self.stopping.cancel();
        Failure::Transient("the history of the database has changed".to_owned())
    }
}

impl Consumer {
    pub fn new(
        service: &'static str,
        db: Db,
        config: Config,
        subscription: Subscription,
        limits: ConsumerLimits,
        metrics: &Metrics,
    ) -> Self {
        let metrics = ConsumerMetrics::register(metrics, subscription.group);
        let outage = OutageDetector::new(subscription.group, metrics.paused.clone());
        Self { db: db.with_generic_plans(), service, config, subscription, limits, outage, metrics }
    }

    /// Consumes until `stopping`. A session ends when the history of the database has changed, and
    /// the next one first rewinds its partitions.
    ///
    /// # Errors
    /// The Kafka client cannot be created or subscribed. A retry would fail as well.
    pub async fn run(self, stopping: CancellationToken) -> anyhow::Result<()> {
        while !stopping.is_cancelled() {
            match history::current(&self.db).await {
                Ok(history) => {
                    self.run_session(Session { history, stopping: stopping.child_token() }).await?;
                }
                Err(error) => tracing::debug!(%error, "failed to read the history of the database"),
            }
            tokio::select! {
                () = tokio::time::sleep(SESSION_RETRY_INTERVAL) => {}
                () = stopping.cancelled() => {}
            }
        }
        Ok(())
    }

    /// Consumes until the session ends, then completes the deliveries in progress and commits
    /// offsets.
    async fn run_session(&self, session: Session) -> anyhow::Result<()> {
        let budget = Arc::clone(&self.limits.buffer);
        let (max_batch, metrics) = (self.subscription.max_batch, self.metrics.buffer.clone());
        let partitions = Partitions::new(session.stopping.clone(), budget, max_batch, metrics);
        let client: StreamConsumer<Partitions> =
            self.config.consumer(self.subscription.group).create_with_context(partitions)?;
        client.subscribe(self.subscription.topics)?;
        let client = Arc::new(client);
        let partitions = client.client().context();
        let mut in_progress = FuturesUnordered::new();
        let mut history_changed = std::pin::pin!(self.history_changed(&session));
        let mut outage_updates = tokio::time::interval(OUTAGE_UPDATE_INTERVAL);
        loop {
            let (delivery, control, partition) = tokio::select! {
                received = client.recv() => match received {
                    Ok(message) => {
                        let message = Message::from_kafka(&message);
                        // `recv` may have assigned the partition.
                        if !self.check_new_positions(&session, &client).await {
                            break;
                        }
                        let partition = (message.topic.clone(), message.position.partition);
                        let (delivery, control) = partitions.enqueue(&partition, message);
                        (delivery, control, partition)
                    }
                    // The client reconnects by itself, so the error is only logged.
                    Err(error) => {
                        let group = self.subscription.group;
                        tracing::warn!(group, %error, "Kafka client reported an error");
                        continue;
                    }
                },
                Some((delivery, is_done)) = in_progress.next() => {
                    let Some((next, control)) = self.complete(&client, &delivery, is_done) else { continue };
                    (next, control, delivery.partition)
                }
                () = partitions.wait_for_assignment() => {
                    if self.check_new_positions(&session, &client).await {
                        continue;
                    }
                    break;
                }
                _ = outage_updates.tick() => {
                    self.outage.update_metric();
                    continue;
                }
                () = &mut history_changed => break,
                () = session.stopping.cancelled() => break,
            };
            if let Err(error) = control_fetching(&client, control, &partition) {
                tracing::debug!(%error, "failed to pause or resume a partition");
            }
            in_progress.extend(delivery.map(|delivery| self.process(&session, delivery)));
        }
        session.stopping.cancel();
        while let Some((delivery, is_done)) = in_progress.next().await {
            self.complete(&client, &delivery, is_done);
        }
        drop(in_progress);
        // Dropping the client leaves the group and commits the offsets. librdkafka's call blocks.
        tokio::task::spawn_blocking(move || drop(client)).await?;
        Ok(())
    }

    /// Resolves when the history of the database is not that of the session.
    async fn history_changed(&self, session: &Session) {
        loop {
            tokio::time::sleep(HISTORY_CHECK_INTERVAL).await;
            if history::current(&self.db).await.is_ok_and(|history| history != session.history) {
                return;
            }
        }
    }

    /// Compares the positions of newly assigned partitions with their receipts, and moves back each
    /// position whose receipts are missing. Returns false if the session has to end: a position was
    /// moved or could not be compared.
    async fn check_new_positions(&self, session: &Session, client: &Arc<StreamConsumer<Partitions>>) -> bool {
        let assigned = client.client().context().take_newly_assigned();
        if assigned.is_empty() {
            return true;
        }
        let group = self.subscription.group;
        match positions::rewind(&self.db, client, group, &session.history, assigned).await {
            Ok(moved) => {
                self.metrics.rewound.inc_by(moved as u64);
                moved == 0
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(group, error, "failed to compare offsets with receipts, retrying");
                false
            }
        }
    }

    /// Ends a delivery and returns the next one of its partition. The offset is stored only if all
    /// messages are done and the partition is still assigned. Otherwise the next replica receives
    /// the messages again, and drops those that the inbox has.
    fn complete(
        &self,
        client: &StreamConsumer<Partitions>,
        delivery: &Delivery,
        is_done: bool,
    ) -> Option<(Option<Delivery>, FetchControl)> {
        if !is_done {
            return None;
        }
        let next = client.client().context().complete(delivery)?;
        let ((topic, partition), last) = (&delivery.partition, delivery.messages.last()?);
        // librdkafka commits the offset after this one.
        if let Err(error) = client.store_offset(topic, *partition, last.position.offset) {
            tracing::debug!(group = self.subscription.group, %error, "failed to store an offset");
        }
        Some(next)
    }
}

fn control_fetching(
    client: &StreamConsumer<Partitions>,
    control: FetchControl,
    partition: &(String, i32),
) -> KafkaResult<()> {
    let mut list = TopicPartitionList::new();
    list.add_partition(&partition.0, partition.1);
    match control {
        FetchControl::Continue => Ok(()),
        FetchControl::Pause => client.pause(&list),
        FetchControl::Resume => client.resume(&list),
    }
}
