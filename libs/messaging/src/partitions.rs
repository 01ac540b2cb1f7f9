//! The partitions that a consumer has been given: what waits in each, and what is being worked on.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::gauge::Gauge;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::statistics::Statistics;
use rdkafka::{ClientContext, TopicPartitionList};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Message;
use crate::config::Quiet;

/// A partition with so many messages or bytes waiting is fetched no further …
const FULL: usize = 1024;
const FULL_BYTES: usize = 4 << 20;
/// … until a part of them is left. A pause is dear: librdkafka drops what it had fetched, and fetches it again.
const DRAINED: usize = FULL / 4;
const DRAINED_BYTES: usize = FULL_BYTES / 4;

/// One partition, from the moment it was given to this replica until it is taken away.
struct Partition {
    /// Tells this tenure from earlier ones of the same partition.
    tenure: u64,
    waiting: VecDeque<Message>,
    /// Of the payloads that wait.
    bytes: usize,
    in_hand: bool,
    paused: bool,
    /// Cancels waiting for another attempt when the partition is taken away or the service stops.
    leaving: DropGuard,
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
    lag: Gauge,
}

#[derive(Default)]
struct Held {
    partitions: HashMap<(String, i32), Partition>,
    tenures: u64,
}

impl Partitions {
    pub fn new(stopping: CancellationToken, lag: Gauge) -> Self {
        Self { held: Mutex::default(), stopping, lag }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message behind those of its partition. A turn comes back if its partition was idle.
    pub fn add(&self, message: Message) -> (Option<Turn>, Flow) {
        let mut held = self.held();
        let Held { partitions, tenures } = &mut *held;
        let at = (message.topic.clone(), message.partition);
        let partition = partitions.entry(at).or_insert_with(|| {
            *tenures += 1;
            Partition {
                tenure: *tenures,
                waiting: VecDeque::new(),
                bytes: 0,
                in_hand: false,
                paused: false,
                leaving: self.stopping.child_token().drop_guard(),
            }
        });
        partition.bytes += message.payload.len();
        partition.waiting.push_back(message);
        let turn = if partition.in_hand { None } else { partition.next() };
        // Asked for again with each message too many: some may have been under way.
        let full = partition.waiting.len() >= FULL || partition.bytes >= FULL_BYTES;
        let flow = if full { Flow::Pause } else { Flow::Keep };
        partition.paused |= flow == Flow::Pause;
        (turn, flow)
    }

    /// Ends a turn and begins the partition's next. `None`: the partition has been taken away since.
    pub fn end(&self, turn: &Turn) -> Option<(Option<Turn>, Flow)> {
        let mut held = self.held();
        let partition = held.partitions.get_mut(&(turn.message.topic.clone(), turn.message.partition))?;
        if partition.tenure != turn.tenure {
            return None;
        }
        partition.in_hand = false;
        let next = partition.next();
        let drained = partition.waiting.len() <= DRAINED && partition.bytes <= DRAINED_BYTES;
        let resume = partition.paused && drained;
        partition.paused &= !resume;
        Some((next, if resume { Flow::Resume } else { Flow::Keep }))
    }

    /// Forgets partitions and answers those among them that are paused.
    fn revoke(&self, list: &TopicPartitionList) -> TopicPartitionList {
        let mut held = self.held();
        let mut paused = TopicPartitionList::new();
        for element in list.elements() {
            let removed = held.partitions.remove(&(element.topic().to_owned(), element.partition()));
            if removed.is_some_and(|partition| partition.paused) {
                paused.add_partition(element.topic(), element.partition());
            }
        }
        paused
    }
}

impl Partition {
    fn next(&mut self) -> Option<Turn> {
        let message = self.waiting.pop_front()?;
        self.bytes -= message.payload.len();
        self.in_hand = true;
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
        self.lag.set(partitions.map(|partition| partition.consumer_lag.max(0)).sum());
    }
}

impl ConsumerContext for Partitions {
    fn pre_rebalance(&self, client: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        // librdkafka keeps a pause beyond a revocation: a partition that came back would stand still.
        if let Rebalance::Revoke(list) = rebalance
            && let Err(error) = client.resume(&self.revoke(list))
        {
            tracing::warn!(%error, "a partition that is given up stays paused");
        }
    }
}
