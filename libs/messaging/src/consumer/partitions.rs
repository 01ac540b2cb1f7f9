//! The partitions that are assigned to a consumer, with the messages that each buffers.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::statistics::Statistics;
use rdkafka::{ClientContext, TopicPartitionList};
use time::OffsetDateTime;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::metrics::BufferMetrics;
use super::positions::PartitionId;
use crate::config::QuietContext;
use crate::contract::message::Message;

/// The maximum share of a partition in the budget. Fetching pauses when the buffer of the partition
/// reaches its share.
const MAX_PARTITION_BYTES: usize = 4 << 20;
/// Fetching resumes when the buffer has shrunk to the share divided by this number. Each pause is
/// expensive, since librdkafka drops its prefetched messages and fetches them again.
const RESUME_DIVISOR: usize = 4;
/// The size above which a batch takes no further message, so that its transaction stays short.
const MAX_BATCH_BYTES: usize = 1 << 20;
/// The approximate memory of a message beside its key, headers and payload.
const MESSAGE_OVERHEAD_BYTES: usize = 1024;

/// The bytes of messages that the consumers of a process may buffer.
///
/// All assigned partitions have equal shares, so that a stalled partition does not starve the
/// others. Each partition may buffer at least one message of any size.
pub(super) struct BufferBudget {
    bytes: usize,
    partitions: AtomicUsize,
}

impl BufferBudget {
    pub fn new(bytes: usize) -> Self {
        Self { bytes, partitions: AtomicUsize::new(0) }
    }

    fn share(&self) -> usize {
        (self.bytes / self.partitions.load(Ordering::Relaxed).max(1)).min(MAX_PARTITION_BYTES)
    }
}

/// One partition, from its assignment to this replica until its revocation.
struct Partition {
    /// Distinguishes this assignment from earlier ones of the same partition.
    assignment_generation: u64,
    queue: VecDeque<Message>,
    /// The size of the queued messages and of those in progress.
    bytes: usize,
    in_progress: Option<InProgress>,
    is_paused: bool,
    /// Cancels pending retries when the partition is revoked or the session ends.
    cancellation: DropGuard,
}

#[derive(Clone, Copy)]
struct InProgress {
    bytes: usize,
    /// The time of the oldest message.
    published_at: Option<OffsetDateTime>,
}

/// A batch of messages of one partition in progress, with the token that cancels it.
pub(super) struct Delivery {
    pub partition: PartitionId,
    /// At least one message, in the order of their offsets.
    pub messages: Vec<Message>,
    /// Cancelled when the partition is revoked or the session ends.
    pub cancellation: CancellationToken,
    assignment_generation: u64,
}

/// An instruction to the Kafka client about the fetching of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchControl {
    Continue,
    Pause,
    Resume,
}

/// The partitions of one consumer. librdkafka reports rebalances to this type, because it is the
/// client's context.
pub(super) struct Partitions {
    table: Mutex<PartitionTable>,
    assignment: Notify,
    stopping: CancellationToken,
    budget: Arc<BufferBudget>,
    /// The maximum number of messages of a delivery.
    max_batch: usize,
    metrics: BufferMetrics,
}

#[derive(Default)]
struct PartitionTable {
    /// The partitions by topic and number. A partition is added with its first message.
    partitions: HashMap<PartitionId, Partition>,
    last_generation: u64,
    /// The partitions that were assigned since [`Partitions::take_newly_assigned`].
    newly_assigned: Vec<PartitionId>,
    /// The number of assigned partitions, including those without a message so far.
    assigned: usize,
}

impl Partitions {
    pub fn new(
        stopping: CancellationToken,
        budget: Arc<BufferBudget>,
        max_batch: usize,
        metrics: BufferMetrics,
    ) -> Self {
        let assignment = Notify::new();
        Self { table: Mutex::default(), assignment, stopping, budget, max_batch, metrics }
    }

    fn table(&self) -> MutexGuard<'_, PartitionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the brokers assign partitions.
    pub async fn wait_for_assignment(&self) {
        self.assignment.notified().await;
    }

    /// Returns the partitions that were assigned since the last call. Their messages arrive later
    /// than their assignment.
    pub fn take_newly_assigned(&self) -> Vec<PartitionId> {
        std::mem::take(&mut self.table().newly_assigned)
    }

    /// Queues a message. Returns a delivery if its partition was idle.
    pub fn enqueue(&self, id: &PartitionId, message: Message) -> (Option<Delivery>, FetchControl) {
        let mut table = self.table();
        let PartitionTable { partitions, last_generation, .. } = &mut *table;
        let partition = partitions.entry(id.clone()).or_insert_with(|| {
            *last_generation += 1;
            Partition {
                assignment_generation: *last_generation,
                queue: VecDeque::new(),
                bytes: 0,
                in_progress: None,
                is_paused: false,
                cancellation: self.stopping.child_token().drop_guard(),
            }
        });
        let bytes = size(&message);
        partition.bytes += bytes;
        self.metrics.bytes.inc_by(gauge_value(bytes));
        partition.queue.push_back(message);
        let is_idle = partition.in_progress.is_none();
        let delivery = if is_idle { partition.start_next(id, self.max_batch) } else { None };
        // Messages that were fetched before a pause still arrive. Each of them pauses again.
        let is_full = partition.bytes >= self.budget.share();
        let control = if is_full { FetchControl::Pause } else { FetchControl::Continue };
        partition.is_paused |= is_full;
        (delivery, control)
    }

    /// Ends a delivery and starts the next one of its partition.
    /// Returns `None` if the partition has been revoked since.
    pub fn complete(&self, delivery: &Delivery) -> Option<(Option<Delivery>, FetchControl)> {
        let mut table = self.table();
        let partition = table.partitions.get_mut(&delivery.partition)?;
        if partition.assignment_generation != delivery.assignment_generation {
            return None;
        }
        let completed = partition.in_progress.take().map_or(0, |batch| batch.bytes);
        partition.bytes -= completed;
        self.metrics.bytes.dec_by(gauge_value(completed));
        let next = partition.start_next(&delivery.partition, self.max_batch);
        let is_drained =
            partition.queue.is_empty() || partition.bytes <= self.budget.share() / RESUME_DIVISOR;
        let is_resumed = partition.is_paused && is_drained;
        partition.is_paused &= !is_resumed;
        Some((next, if is_resumed { FetchControl::Resume } else { FetchControl::Continue }))
    }

    fn assign(&self, list: &TopicPartitionList) {
        self.set_assigned_count(list.count());
        let elements = list.elements();
        let ids = elements.iter().map(|element| (element.topic().to_owned(), element.partition()));
        self.table().newly_assigned.extend(ids);
        self.assignment.notify_one();
    }

    /// Sets the number of assigned partitions, which determines the shares of the budget.
    fn set_assigned_count(&self, count: usize) {
        let before = std::mem::replace(&mut self.table().assigned, count);
        self.budget.partitions.fetch_add(count, Ordering::Relaxed);
        self.budget.partitions.fetch_sub(before, Ordering::Relaxed);
    }

    /// Removes partitions. Returns the removed partitions that were paused.
    fn revoke(&self, list: &TopicPartitionList) -> TopicPartitionList {
        let mut table = self.table();
        let mut paused = TopicPartitionList::new();
        for element in list.elements() {
            let id = (element.topic().to_owned(), element.partition());
            table.newly_assigned.retain(|assigned| *assigned != id);
            let removed = table.partitions.remove(&id);
            let Some(partition) = removed else { continue };
            self.metrics.bytes.dec_by(gauge_value(partition.bytes));
            if partition.is_paused {
                paused.add_partition(element.topic(), element.partition());
            }
        }
        paused
    }

    /// Returns the time in seconds since the publication of the oldest buffered message.
    fn oldest_age_seconds(&self) -> f64 {
        let table = self.table();
        let published = table.partitions.values().filter_map(Partition::oldest_publication).min();
        published.map_or(0.0, |at| (runtime::clock::now() - at).as_seconds_f64().max(0.0))
    }
}

fn size(message: &Message) -> usize {
    message.bytes() + MESSAGE_OVERHEAD_BYTES
}

fn gauge_value(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Drop for Partitions {
    fn drop(&mut self) {
        self.set_assigned_count(0);
    }
}

impl Partition {
    fn oldest_publication(&self) -> Option<OffsetDateTime> {
        match self.in_progress {
            Some(batch) => batch.published_at,
            None => self.queue.front()?.position.published_at,
        }
    }

    /// Takes the queued messages of the next delivery, or returns `None` if there is none.
    fn start_next(&mut self, id: &PartitionId, max_batch: usize) -> Option<Delivery> {
        let published_at = self.queue.front()?.position.published_at;
        let (mut messages, mut bytes) = (Vec::new(), 0);
        while messages.len() < max_batch.max(1)
            && bytes < MAX_BATCH_BYTES
            && let Some(message) = self.queue.pop_front()
        {
            bytes += size(&message);
            messages.push(message);
        }
        self.in_progress = Some(InProgress { bytes, published_at });
        let (partition, cancellation) = (id.clone(), self.cancellation.token().clone());
        Some(Delivery {
            partition,
            messages,
            cancellation,
            assignment_generation: self.assignment_generation,
        })
    }
}

impl ClientContext for Partitions {
    fn error(&self, error: KafkaError, reason: &str) {
        QuietContext.error(error, reason);
    }

    fn stats(&self, statistics: Statistics) {
        let partitions = statistics.topics.values().flat_map(|topic| topic.partitions.values());
        // The lag is -1 for partitions of other replicas.
        self.metrics.lag.set(partitions.map(|partition| partition.consumer_lag.max(0)).sum());
        self.metrics.oldest.set(self.oldest_age_seconds());
        let is_connected = statistics.brokers.values().any(|broker| broker.state == "UP");
        self.metrics.readable.set(if is_connected { gauge_value(self.table().assigned) } else { 0 });
    }
}

impl ConsumerContext for Partitions {
    fn pre_rebalance(&self, client: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => self.assign(list),
            // librdkafka keeps a pause after a revocation. Without the resume, the partition would
            // still be paused after its next assignment.
            Rebalance::Revoke(list) => {
                // The default assignors revoke all partitions at once.
                self.set_assigned_count(0);
                if let Err(error) = client.resume(&self.revoke(list)) {
                    tracing::warn!(%error, "failed to resume revoked partitions");
                }
            }
            Rebalance::Error(_) => {}
        }
    }
}
