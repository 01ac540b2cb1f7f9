//! Consuming: each message once, in order per key, its effect and its receipt in one transaction.

use std::future::Future;
use std::time::Duration;

use db::{Db, Tx};
use opentelemetry::global;
use prometheus_client::metrics::counter::Counter;
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use runtime::Process;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::envelope::Message;
use crate::inbox::{self, Receipt};
use crate::{Config, outbox};

const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// Why a message was not applied.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The database or a dependency is away: the message waits and is tried again, without limit.
    #[error("not now: {0}")]
    Transient(String),
    /// It does not decode or a rule refuses it: it is dead-lettered.
    #[error("{0}")]
    Rejected(String),
}

impl From<db::Error> for Failure {
    fn from(error: db::Error) -> Self {
        match error {
            db::Error::Unavailable(reason) => Self::Transient(reason),
            db::Error::Query(_) => Self::Rejected(format!("{:#}", anyhow::Error::from(error))),
        }
    }
}

/// What a service does with the messages of one producer.
pub trait Handler: Send + Sync + 'static {
    /// The consumer group, `<service>.<producer>`; never changed, since the inbox is kept under it.
    const GROUP: &'static str;
    const TOPICS: &'static [&'static str];

    /// Applies one message. What it writes through `tx` commits together with the receipt.
    fn handle(&self, tx: &mut Tx, message: &Message) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Runs a [`Handler`].
pub struct Consumer<H> {
    db: Db,
    config: Config,
    dead_letter_suffix: String,
    handler: H,
    metrics: ConsumerMetrics,
}

#[derive(Clone, Default)]
struct ConsumerMetrics {
    applied: Counter,
    duplicates: Counter,
    retries: Counter,
    dead: Counter,
}

impl<H: Handler> Consumer<H> {
    /// A consumer of the service named `service`.
    pub fn new(process: &Process, db: Db, config: Config, service: &str, handler: H) -> Self {
        let metrics = ConsumerMetrics::default();
        process.metrics().register(|registry| {
            let registry = registry.sub_registry_with_label(("consumer".into(), H::GROUP.into()));
            registry.register("consumer_applied", "Messages applied", metrics.applied.clone());
            registry.register("consumer_duplicates", "Messages dropped as seen", metrics.duplicates.clone());
            registry.register("consumer_retries", "Attempts that will be repeated", metrics.retries.clone());
            registry.register("consumer_dead_letters", "Messages put aside", metrics.dead.clone());
        });
        Self { db, config, dead_letter_suffix: format!(".{service}.dlq"), handler, metrics }
    }

    /// Consumes until `stopping`, then finishes the message in hand and commits offsets.
    ///
    /// # Errors
    /// When the client cannot be made or subscribed, which no retry would repair.
    pub async fn run(self, stopping: CancellationToken) -> anyhow::Result<()> {
        let consumer: StreamConsumer = self.config.consumer(H::GROUP).create()?;
        consumer.subscribe(H::TOPICS)?;
        loop {
            let received = tokio::select! {
                received = consumer.recv() => received,
                () = stopping.cancelled() => break,
            };
            match received {
                Ok(message) => {
                    if self.process(&Message::from_kafka(&message), &stopping).await {
                        // Refused when the partition has just gone to another replica, which will get
                        // the message again and find it in the inbox.
                        if let Err(error) = consumer.store_offset_from_message(&message) {
                            tracing::debug!(%error, "an offset was not stored");
                        }
                    }
                }
                // The client reconnects by itself; this is only its report.
                Err(error) => {
                    tracing::warn!(group = H::GROUP, %error, "consuming was interrupted");
                    tokio::time::sleep(RETRY_MIN).await;
                }
            }
        }
        Ok(())
    }

    /// Applies a message or puts it aside; tries again as long as that takes. `false`: stopped before.
    async fn process(&self, message: &Message, stopping: &CancellationToken) -> bool {
        let span = tracing::info_span!(
            "consume",
            otel.name = format!("consume {}", message.topic),
            otel.kind = "consumer",
            consumer = H::GROUP,
            topic = message.topic,
            sequence = message.sequence,
        );
        let headers = message.headers.iter().filter_map(|(name, value)| match value {
            Value::String(text) => Some((name.clone(), text.clone())),
            _ => None,
        });
        let headers: std::collections::HashMap<String, String> = headers.collect();
        // A span that is filtered out has no parent to set.
        let _ = span.set_parent(global::get_text_map_propagator(|propagator| propagator.extract(&headers)));
        async {
            let mut pause = RETRY_MIN;
            loop {
                let outcome = match self.apply(message).await {
                    Err(Failure::Rejected(reason)) => self.bury(message, &reason).await,
                    outcome => outcome,
                };
                let Err(reason) = outcome else { return true };
                self.metrics.retries.inc();
                tracing::warn!(%reason, pause_ms = pause.as_millis(), "a message waits");
                tokio::select! {
                    () = tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))) => {}
                    () = stopping.cancelled() => return false,
                }
                pause = (pause * 2).min(RETRY_MAX);
            }
        }
        .instrument(span)
        .await
    }

    async fn apply(&self, message: &Message) -> Result<(), Failure> {
        let receipt = self
            .db
            .tx(async |tx| {
                let receipt = inbox::receive(tx, H::GROUP, message).await?;
                match receipt {
                    Receipt::New => self.handler.handle(tx, message).await?,
                    Receipt::Duplicate => {}
                    Receipt::Blocked => self.bury_in(tx, message, "behind a dead letter of its key").await?,
                }
                Ok::<_, Failure>(receipt)
            })
            .await?;
        match receipt {
            Receipt::New => self.metrics.applied.inc(),
            Receipt::Duplicate => self.metrics.duplicates.inc(),
            Receipt::Blocked => self.metrics.dead.inc(),
        };
        Ok(())
    }

    async fn bury(&self, message: &Message, reason: &str) -> Result<(), Failure> {
        tracing::error!(
            offset = message.offset,
            partition = message.partition,
            reason,
            "a message was dead-lettered"
        );
        self.db
            .tx(async |tx| {
                if inbox::receive(tx, H::GROUP, message).await? != Receipt::Duplicate {
                    self.bury_in(tx, message, reason).await?;
                }
                Ok::<_, Failure>(())
            })
            .await?;
        self.metrics.dead.inc();
        Ok(())
    }

    async fn bury_in(&self, tx: &mut Tx, message: &Message, reason: &str) -> Result<(), Failure> {
        inbox::bury(tx, H::GROUP, message, reason).await?;
        outbox::append_dead(tx, message, &format!("{}{}", message.topic, self.dead_letter_suffix)).await?;
        Ok(())
    }
}
