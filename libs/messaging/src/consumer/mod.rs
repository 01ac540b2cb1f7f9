//! Consuming: each message once, in order per key, its effect and its receipt in one transaction.
//!
//! Partitions are worked on side by side, each in its order. A message that has to wait holds up its
//! own partition and no other.

pub mod entity;
pub mod inbox;
pub mod partitions;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use db::Db;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use opentelemetry::global;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use rdkafka::error::KafkaResult;
use runtime::Metrics;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::subscription::Subscription;
use crate::contract::message::Place;
use crate::consumer::inbox::{self, Receipt};
use crate::consumer::partitions::{Budget, Flow, Partitions, Turn, WaitingMetrics};
use crate::{Bus, Config, Failure, Message};

const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// How often a message is tried that the database refuses: another write may have been first.
const TRIES: u32 = 3;
/// When the database has refused messages of so many keys and taken none since, it is not they that are wrong: a table
/// or a column is missing. Nothing is put aside until a message gets through.
const REFUSED_KEYS: usize = 5;
/// Longer than the longest pause between two tries.
const STILL: Duration = Duration::from_secs(30);

/// Runs one [`Subscription`].
pub(crate) struct Consumer {
    db: Db,
    service: &'static str,
    config: Config,
    subscription: Subscription,
    room: Room,
    refused: Mutex<Refused>,
    metrics: ConsumerMetrics,
}

/// What the database has refused since it took a message.
#[derive(Default)]
struct Refused {
    keys: HashSet<String>,
    last: Option<Instant>,
}

impl Refused {
    /// Whether it refuses all. What is refused is tried again at least every ten seconds; so if nothing is any more, what
    /// was has gone, to another replica with its partition, say.
    fn is_all(&self) -> bool {
        self.keys.len() >= REFUSED_KEYS && self.last.is_some_and(|last| last.elapsed() < STILL)
    }
}

/// What the consumers of a process share.
#[derive(Clone)]
pub(crate) struct Room {
    /// Messages applied at the same time, so that they cannot use up the connections of their service.
    pub at_once: Arc<Semaphore>,
    pub budget: Arc<Budget>,
}

#[derive(Clone, Default)]
struct ConsumerMetrics {
    applied: Counter,
    duplicates: Counter,
    retries: Counter,
    dead: Counter,
    paused: Gauge,
    waiting: WaitingMetrics,
}

impl ConsumerMetrics {
    fn register(metrics: &Metrics, group: &'static str) -> Self {
        let kept = Self::default();
        metrics.register(|registry| {
            let registry = registry.sub_registry_with_label(("consumer".into(), group.into()));
            registry.register("consumer_applied", "Messages applied", kept.applied.clone());
            registry.register("consumer_duplicates", "Messages dropped as seen", kept.duplicates.clone());
            registry.register("consumer_retries", "Attempts that will be repeated", kept.retries.clone());
            registry.register("consumer_dead_letters", "Messages put aside", kept.dead.clone());
            registry.register("consumer_paused", "1: the database refuses all", kept.paused.clone());
            let WaitingMetrics { lag, oldest, held } = kept.waiting.clone();
            registry.register("consumer_lag", "Messages of its partitions still to come", lag);
            registry.register("consumer_oldest_seconds", "Age of the oldest that waits here", oldest);
            registry.register("consumer_held_bytes", "Of the messages that wait here", held);
        });
        kept
    }
}

impl Consumer {
    pub fn new(bus: &Bus, metrics: &Metrics, config: Config, subscription: Subscription, room: Room) -> Self {
        Self {
            db: bus.db.clone().keeping_plans(),
            service: bus.service,
            config,
            subscription,
            room,
            refused: Mutex::default(),
            metrics: ConsumerMetrics::register(metrics, subscription.group),
        }
    }

    /// Consumes until `stopping`, then finishes the messages in hand and commits offsets.
    ///
    /// # Errors
    /// When the client cannot be made or subscribed, which no retry would repair.
    pub async fn run(self, stopping: CancellationToken) -> anyhow::Result<()> {
        let partitions =
            Partitions::new(stopping.clone(), Arc::clone(&self.room.budget), self.metrics.waiting.clone());
        let client: StreamConsumer<Partitions> =
            self.config.consumer(self.subscription.group).create_with_context(partitions)?;
        client.subscribe(self.subscription.topics)?;
        let partitions = client.client().context();
        let mut in_hand = FuturesUnordered::new();
        loop {
            let (turn, flow, at) = tokio::select! {
                received = client.recv() => match received {
                    Ok(message) => {
                        let message = Message::from_kafka(&message);
                        let at = (message.topic.clone(), message.at.partition);
                        let (turn, flow) = partitions.add(message);
                        (turn, flow, at)
                    }
                    // The client reconnects by itself; this is only its report.
                    Err(error) => {
                        tracing::warn!(group = self.subscription.group, %error, "consuming was interrupted");
                        continue;
                    }
                },
                Some((turn, applied)) = in_hand.next() => {
                    let Some((next, flow)) = self.settle(&client, &turn, applied) else { continue };
                    (next, flow, (turn.message.topic, turn.message.at.partition))
                }
                () = stopping.cancelled() => break,
            };
            if let Err(error) = direct(&client, flow, &at) {
                tracing::debug!(%error, "a partition could not be paused or resumed");
            }
            in_hand.extend(turn.map(|turn| self.process(turn)));
        }
        while let Some((turn, applied)) = in_hand.next().await {
            self.settle(&client, &turn, applied);
        }
        drop(in_hand);
        // Leaving the group commits the offsets; librdkafka's call blocks.
        tokio::task::spawn_blocking(move || drop(client)).await?;
        Ok(())
    }

    /// Ends a turn and answers the next. The offset is kept if the partition still belongs to this replica;
    /// another one will find the message in the inbox.
    fn settle(
        &self,
        client: &StreamConsumer<Partitions>,
        turn: &Turn,
        applied: bool,
    ) -> Option<(Option<Turn>, Flow)> {
        if !applied {
            return None;
        }
        let Message { topic, at: Place { partition, offset, .. }, .. } = &turn.message;
        let next = client.client().context().end(turn)?;
        if let Err(error) = client.store_offset(topic, *partition, *offset) {
            tracing::debug!(group = self.subscription.group, %error, "an offset was not stored");
        }
        Some(next)
    }

    /// Applies a message or puts it aside; tries again as long as that takes. `false`: it was to leave before.
    async fn process(&self, turn: Turn) -> (Turn, bool) {
        let span = self.span(&turn.message);
        let applied = async {
            let mut pause = RETRY_MIN;
            for tries in 1.. {
                let Err(reason) = self.attempt(&turn.message, tries).await else { break };
                self.metrics.retries.inc();
                let (group, topic) = (self.subscription.group, &turn.message.topic);
                tracing::warn!(group, topic, %reason, pause_ms = pause.as_millis(), "a message waits");
                tokio::select! {
                    () = tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))) => {}
                    () = turn.leaving.cancelled() => return false,
                }
                pause = (pause * 2).min(RETRY_MAX);
            }
            true
        };
        let applied = applied.instrument(span).await;
        (turn, applied)
    }

    /// The consumer's span, in the trace of the change that the message tells of.
    fn span(&self, message: &Message) -> Span {
        let span = tracing::info_span!(
            "consume",
            otel.name = format!("consume {}", message.topic),
            otel.kind = "consumer",
            consumer = self.subscription.group,
            topic = message.topic,
            sequence = message.sequence,
        );
        let headers: HashMap<String, String> = message
            .headers
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect();
        // A span that is filtered out has no parent to set.
        let _ = span.set_parent(global::get_text_map_propagator(|propagator| propagator.extract(&headers)));
        span
    }

    /// One attempt. What may be otherwise the next time is left to be tried again.
    async fn attempt(&self, message: &Message, tries: u32) -> Result<(), Failure> {
        let _room =
            self.room.at_once.acquire().await.map_err(|closed| Failure::Transient(closed.to_string()))?;
        match self.apply(message).await {
            Err(Failure::Rejected(reason)) => self.bury(message, &reason).await,
            Err(Failure::Refused(reason)) if !self.is_paused(message, &reason) && tries >= TRIES => {
                self.bury(message, &reason).await
            }
            outcome => outcome,
        }
    }

    fn refused(&self) -> MutexGuard<'_, Refused> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the database has refused a message. Answers whether it refuses all.
    fn is_paused(&self, message: &Message, reason: &str) -> bool {
        let mut refused = self.refused();
        let was = refused.is_all();
        refused.last = Some(Instant::now());
        if refused.keys.len() < REFUSED_KEYS {
            let Message { topic, key, id, .. } = message;
            refused.keys.insert(if key.is_empty() { id.clone() } else { format!("{topic} {key}") });
        }
        let paused = refused.is_all();
        if paused && !was {
            let group = self.subscription.group;
            tracing::error!(
                group,
                reason,
                "the database refuses all; nothing is put aside until it takes one"
            );
            self.metrics.paused.set(1);
        }
        paused
    }

    /// Notes that the database has taken a message.
    fn got_through(&self) {
        let mut refused = self.refused();
        if refused.keys.len() >= REFUSED_KEYS {
            tracing::info!(group = self.subscription.group, "the database takes messages again");
            self.metrics.paused.set(0);
        }
        *refused = Refused::default();
    }

    async fn apply(&self, message: &Message) -> Result<(), Failure> {
        let group = self.subscription.group;
        let receipt = self
            .db
            .tx(async |tx| {
                let receipt = inbox::receive(tx, group, message).await?;
                match receipt {
                    Receipt::New => self.subscription.handle(tx, message).await?,
                    Receipt::Duplicate => {}
                    // Its key was put aside for what may be nobody's fault.
                    Receipt::Blocked if self.refused().is_all() => {
                        return Err(Failure::Transient("the database refuses all".to_owned()));
                    }
                    Receipt::Blocked => {
                        inbox::bury(tx, self.service, group, message, "behind a dead letter of its key")
                            .await?;
                    }
                }
                Ok::<_, Failure>(receipt)
            })
            .await?;
        match receipt {
            Receipt::New => {
                self.got_through();
                self.metrics.applied.inc()
            }
            Receipt::Duplicate => self.metrics.duplicates.inc(),
            Receipt::Blocked => self.metrics.dead.inc(),
        };
        Ok(())
    }

    async fn bury(&self, message: &Message, reason: &str) -> Result<(), Failure> {
        let group = self.subscription.group;
        let buried = self
            .db
            .tx(async |tx| {
                let new = inbox::receive(tx, group, message).await? != Receipt::Duplicate;
                if new {
                    inbox::bury(tx, self.service, group, message, reason).await?;
                }
                Ok::<_, Failure>(new)
            })
            .await?;
        if buried {
            let Message { topic, at: Place { partition, offset, .. }, .. } = message;
            tracing::error!(group, topic, partition, offset, reason, "a message was dead-lettered");
            self.metrics.dead.inc();
        }
        Ok(())
    }
}

fn direct(client: &StreamConsumer<Partitions>, flow: Flow, at: &(String, i32)) -> KafkaResult<()> {
    let mut list = TopicPartitionList::new();
    list.add_partition(&at.0, at.1);
    match flow {
        Flow::Keep => Ok(()),
        Flow::Pause => client.pause(&list),
        Flow::Resume => client.resume(&list),
    }
}
