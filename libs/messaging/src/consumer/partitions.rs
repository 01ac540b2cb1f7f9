//! The partitions that a consumer has been given: what waits in each, and what is being worked on.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::gauge::Gauge;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::statistics::Statistics;
use rdkafka::{ClientContext, TopicPartitionList};
use time::OffsetDateTime;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Message;
use crate::config::Quiet;

/// A partition with so much waiting is fetched no further …
const FULL_BYTES: usize = 4 << 20;
/// … until a part of it is left. A pause is dear: librdkafka drops what it had fetched, and fetches it again.
const DRAINED: usize = 4;
/// What a message takes of memory beside its text.
const OVERHEAD: usize = 1024;

/// What the consumers of a process hold of messages, in bytes: in equal parts for the partitions that it has,
/// so that none that stands still leaves the others without. Of each it holds one message, however large.
pub(crate) struct Budget {
    bytes: usize,
    partitions: AtomicUsize,
}

impl Budget {
    pub fn new(bytes: usize) -> Self {
        Self { bytes, partitions: AtomicUsize::new(0) }
    }

    fn share(&self) -> usize {
        (self.bytes / self.partitions.load(Ordering::Relaxed).max(1)).min(FULL_BYTES)
    }
}

/// One partition, from the moment it was given to this replica until it is taken away.
struct Partition {
    /// Tells this tenure from earlier ones of the same partition.
    tenure: u64,
    waiting: VecDeque<Message>,
    /// Of what waits and of what is in hand.
    bytes: usize,
    in_hand: Option<InHand>,
    paused: bool,
    /// Cancels waiting for another attempt when the partition is taken away or the service stops.
    leaving: DropGuard,
}

#[derive(Clone, Copy)]
struct InHand {
    bytes: usize,
    published_at: Option<OffsetDateTime>,
}

/// A message to be worked on.
pub(crate) struct Turn {
    pub message: Message,
    pub leaving: CancellationToken,
    tenure: u64,
}

/// What the fetcher should do with a partition now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Keep,
    Pause,
    Resume,
}

/// All partitions of one consumer; librdkafka tells it of rebalances.
pub(crate) struct Partitions {
    held: Mutex<Held>,
    stopping: CancellationToken,
    budget: Arc<Budget>,
    metrics: WaitingMetrics,
}

/// What a replica says of the messages that it has taken, or could take.
#[derive(Clone, Default)]
pub(crate) struct WaitingMetrics {
    pub lag: Gauge,
    pub oldest: Gauge<f64, AtomicU64>,
    pub held: Gauge,
}

#[derive(Default)]
struct Held {
    partitions: HashMap<(String, i32), Partition>,
    tenures: u64,
    /// How many this replica was given, whether or not anything has come of them.
    assigned: usize,
}

impl Partitions {
    pub fn new(stopping: CancellationToken, budget: Arc<Budget>, metrics: WaitingMetrics) -> Self {
        Self { held: Mutex::default(), stopping, budget, metrics }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message behind those of its partition. A turn comes back if its partition was idle.
    pub fn add(&self, message: Message) -> (Option<Turn>, Flow) {
        let mut held = self.held();
        let Held { partitions, tenures, .. } = &mut *held;
        let at = (message.topic.clone(), message.at.partition);
        let partition = partitions.entry(at).or_insert_with(|| {
            *tenures += 1;
            Partition {
                tenure: *tenures,
                waiting: VecDeque::new(),
                bytes: 0,
                in_hand: None,
                paused: false,
                leaving: self.stopping.child_token().drop_guard(),
            }
        });
        let bytes = size(&message);
        partition.bytes += bytes;
        self.metrics.held.inc_by(gauged(bytes));
        partition.waiting.push_back(message);
        let turn = if partition.in_hand.is_some() { None } else { partition.next() };
        // Asked for again with each message too many: some may have been under way.
        let full = partition.bytes >= self.budget.share();
        let flow = if full { Flow::Pause } else { Flow::Keep };
        partition.paused |= flow == Flow::Pause;
        (turn, flow)
    }

    /// Ends a turn and begins the partition's next. `None`: the partition has been taken away since.
    pub fn end(&self, turn: &Turn) -> Option<(Option<Turn>, Flow)> {
        let mut held = self.held();
        let partition = held.partitions.get_mut(&(turn.message.topic.clone(), turn.message.at.partition))?;
        if partition.tenure != turn.tenure {
            return None;
        }
        let done = partition.in_hand.take().map_or(0, |message| message.bytes);
        partition.bytes -= done;
        self.metrics.held.dec_by(gauged(done));
        let next = partition.next();
        let drained = partition.waiting.is_empty() || partition.bytes <= self.budget.share() / DRAINED;
        let resume = partition.paused && drained;
        partition.paused &= !resume;
        Some((next, if resume { Flow::Resume } else { Flow::Keep }))
    }

    /// Has as many partitions as that from now on.
    fn assigned(&self, count: usize) {
        let before = std::mem::replace(&mut self.held().assigned, count);
        self.budget.partitions.fetch_add(count, Ordering::Relaxed);
        self.budget.partitions.fetch_sub(before, Ordering::Relaxed);
    }

    /// Forgets partitions and answers those among them that are paused.
    fn revoke(&self, list: &TopicPartitionList) -> TopicPartitionList {
        let mut held = self.held();
        let mut paused = TopicPartitionList::new();
        for element in list.elements() {
            let removed = held.partitions.remove(&(element.topic().to_owned(), element.partition()));
            let Some(partition) = removed else { continue };
            self.metrics.held.dec_by(gauged(partition.bytes));
            if partition.paused {
                paused.add_partition(element.topic(), element.partition());
            }
        }
        paused
    }

    /// How long the oldest of what it has taken has been in Kafka.
    fn oldest(&self) -> f64 {
        let held = self.held();
        let published = held.partitions.values().filter_map(Partition::oldest).min();
        published.map_or(0.0, |at| (runtime::clock::now() - at).as_seconds_f64().max(0.0))
    }
}

fn size(message: &Message) -> usize {
    message.bytes() + OVERHEAD
}

fn gauged(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Drop for Partitions {
    fn drop(&mut self) {
        self.assigned(0);
    }
}

impl Partition {
    fn oldest(&self) -> Option<OffsetDateTime> {
        match self.in_hand {
            Some(message) => message.published_at,
            None => self.waiting.front()?.at.published_at,
        }
    }

    fn next(&mut self) -> Option<Turn> {
        let message = self.waiting.pop_front()?;
        self.in_hand = Some(InHand { bytes: size(&message), published_at: message.at.published_at });
        Some(Turn { message, leaving: self.leaving.token().clone(), tenure: self.tenure })
    }
}

impl ClientContext for Partitions {
    fn error(&self, error: KafkaError, reason: &str) {
        Quiet.error(error, reason);
    }

    fn stats(&self, statistics: Statistics) {
        let partitions = statistics.topics.values().flat_map(|topic| topic.partitions.values());
        // -1 for partitions that are somebody else's.
        self.metrics.lag.set(partitions.map(|partition| partition.consumer_lag.max(0)).sum());
        self.metrics.oldest.set(self.oldest());
    }
}

impl ConsumerContext for Partitions {
    fn pre_rebalance(&self, client: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => self.assigned(list.count()),
            // librdkafka keeps a pause beyond a revocation: a partition that came back would stand still.
            Rebalance::Revoke(list) => {
                self.assigned(0);
                if let Err(error) = client.resume(&self.revoke(list)) {
                    tracing::warn!(%error, "a partition that is given up stays paused");
                }
            }
            Rebalance::Error(_) => {}
        }
    }
}
