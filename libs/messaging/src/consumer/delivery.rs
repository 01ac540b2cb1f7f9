//! The processing of a delivery: all messages in one transaction, or one by one if that fails.

use std::collections::HashMap;
use std::slice;
use std::time::Duration;

use db::Tx;
use opentelemetry::global;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::inbox::{self, Receipt};
use super::outage::SlowAttempts;
use super::partitions::Delivery;
use super::{Consumer, Session, dead_letter};
use crate::contract::message::{KafkaPosition, Message};
use crate::failure::Failure;
use crate::handler::TracedMessage;
use crate::subscription::HandleAllFn;

const MIN_RETRY_PAUSE: Duration = Duration::from_millis(50);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(10);
/// The number of attempts after which a message is dead-lettered because a statement failed or was
/// too slow. A retry succeeds if the cause was a concurrent write.
const MAX_QUERY_ATTEMPTS: u32 = 3;
/// The time after which a batch is rolled back, since its transaction holds the locks of all its
/// messages. A running statement or a call of a [`BatchHandler`](crate::BatchHandler) is not
/// interrupted, since the time is checked between messages.
const MAX_BATCH_TIME: Duration = Duration::from_secs(1);

/// The result of a message in its transaction, which is reported after the commit.
#[derive(Clone, Copy)]
enum Outcome {
    Applied {
        went_back: bool,
        /// The number of dead letters of the key that the message superseded.
        superseded: usize,
    },
    Duplicate,
    DeadLettered,
}

/// The decision about a received message before the call of the handler.
enum Decision {
    /// The handler does not get the message.
    Done(Outcome),
    /// The handler gets the message. The fields are those of [`Receipt::New`].
    Handle { is_blocked: bool, went_back: bool },
}

impl Consumer {
    /// Applies or dead-letters the messages of a delivery, and then returns true. Returns false if
    /// the partition was revoked or the session ended first.
    ///
    /// If a message of a batch fails, the batch is rolled back and each message is processed alone.
    /// Retries, dead letters and outages therefore always concern single messages.
    pub(super) async fn process(&self, session: &Session, delivery: Delivery) -> (Delivery, bool) {
        let Delivery { messages, cancellation, .. } = &delivery;
        let spans: Vec<Span> = messages.iter().map(|message| self.span(message)).collect();
        let is_applied =
            messages.len() > 1 && self.apply_batch(session, messages, &spans, cancellation).await;
        let is_done = is_applied || self.process_each(session, messages, &spans, cancellation).await;
        (delivery, is_done)
    }

    /// Tries once to apply all messages in one transaction. Returns false if nothing was applied.
    async fn apply_batch(
        &self,
        session: &Session,
        messages: &[Message],
        spans: &[Span],
        cancellation: &CancellationToken,
    ) -> bool {
        let Ok(_permit) = self.limits.concurrency.acquire().await else { return false };
        // The session may have ended during the wait for the permit, and a batch would delay its
        // end.
        if cancellation.is_cancelled() {
            return false;
        }
        let Err(reason) = self.apply(session, messages, spans).await else { return true };
        self.metrics.split_batches.inc();
        let (group, count) = (self.subscription.group, messages.len());
        tracing::debug!(group, count, %reason, "batch rolled back; messages processed one by one");
        false
    }

    /// Processes the messages in their order, and then returns true. Returns false if the
    /// processing was cancelled first.
    async fn process_each(
        &self,
        session: &Session,
        messages: &[Message],
        spans: &[Span],
        cancellation: &CancellationToken,
    ) -> bool {
        for (message, span) in messages.iter().zip(spans) {
            let processing = self.process_message(session, message, span, cancellation);
            if cancellation.is_cancelled() || !processing.instrument(span.clone()).await {
                return false;
            }
        }
        true
    }

    /// Retries a message until it is applied or dead-lettered, and then returns true. Returns false
    /// if the processing was cancelled first.
    async fn process_message(
        &self,
        session: &Session,
        message: &Message,
        span: &Span,
        cancellation: &CancellationToken,
    ) -> bool {
        let (mut pause, mut slow) = (MIN_RETRY_PAUSE, SlowAttempts::default());
        for attempt in 1.. {
            let Err(reason) = self.attempt(session, message, span, attempt, &mut slow).await else {
                break;
            };
            self.metrics.retries.inc();
            let (group, topic) = (self.subscription.group, &message.topic);
            let pause_ms = pause.as_millis();
            tracing::warn!(group, topic, %reason, pause_ms, "message not applied yet, retrying");
            tokio::select! {
                () = tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))) => {}
                () = cancellation.cancelled() => return false,
            }
            pause = (pause * 2).min(MAX_RETRY_PAUSE);
        }
        true
    }

    /// Returns the consumer's span, in the trace of the change that the message describes.
    fn span(&self, message: &Message) -> Span {
        let span = tracing::info_span!(
            "consume",
            otel.name = format!("consume {}", message.topic),
            otel.kind = "consumer",
            group = self.subscription.group,
            topic = message.topic,
            sequence = message.sequence,
        );
        let headers: HashMap<String, String> = message
            .headers
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect();
        // Setting the parent fails for a span that is filtered out.
        let _ = span.set_parent(global::get_text_map_propagator(|propagator| propagator.extract(&headers)));
        span
    }

    /// Tries once to apply or dead-letter a message. On an error the caller retries.
    async fn attempt(
        &self,
        session: &Session,
        message: &Message,
        span: &Span,
        attempt: u32,
        slow: &mut SlowAttempts,
    ) -> Result<(), Failure> {
        let _permit = self
            .limits
            .concurrency
            .acquire()
            .await
            .map_err(|closed| Failure::Transient(closed.to_string()))?;
        match self.apply(session, slice::from_ref(message), slice::from_ref(span)).await {
            Err(Failure::Rejected(reason)) => self.dead_letter(session, message, &reason).await,
            Err(Failure::Query(reason))
                if !self.outage.record_failure(message, &reason) && attempt >= MAX_QUERY_ATTEMPTS =>
            {
                self.dead_letter(session, message, &reason).await
            }
            Err(Failure::Slow(reason)) if slow.record(&self.outage) >= MAX_QUERY_ATTEMPTS => {
                self.dead_letter(session, message, &reason).await
            }
            result => result,
        }
    }

    /// Applies all messages in one transaction, in their order, or none of them.
    async fn apply(&self, session: &Session, messages: &[Message], spans: &[Span]) -> Result<(), Failure> {
        let outcomes = self
            .db
            .tx(async |tx| {
                let started_at = Instant::now();
                let group = self.subscription.group;
                let receipts = inbox::receive(tx, group, messages, &session.history).await?;
                let messages = messages.iter().zip(spans);
                let received = messages.map(|(message, span)| TracedMessage::new(message, span));
                let received: Vec<_> = received.zip(receipts).collect();
                match self.subscription.handle_all {
                    Some(handle_all) => self.apply_together(tx, session, &received, handle_all).await,
                    None => self.apply_each(tx, session, &received, started_at).await,
                }
            })
            .await?;
        for ((message, span), outcome) in messages.iter().zip(spans).zip(outcomes) {
            span.in_scope(|| self.report(message, outcome));
        }
        Ok(())
    }

    /// Applies or dead-letters messages one after the other. Their keys are locked by a transaction
    /// that began at `started_at`.
    async fn apply_each(
        &self,
        tx: &mut Tx,
        session: &Session,
        received: &[(TracedMessage<'_>, Receipt)],
        started_at: Instant,
    ) -> Result<Vec<Outcome>, Failure> {
        let mut outcomes = Vec::with_capacity(received.len());
        for (traced, receipt) in received {
            if !outcomes.is_empty() && started_at.elapsed() > MAX_BATCH_TIME {
                return Err(Failure::Transient("the batch takes too long".to_owned()));
            }
            let applying = async {
                match self.decide(tx, session, traced.message, *receipt).await? {
                    Decision::Done(outcome) => Ok(outcome),
                    Decision::Handle { is_blocked, went_back } => {
                        self.subscription.handle(tx, traced.message).await?;
                        self.supersede(tx, traced.message, is_blocked, went_back).await
                    }
                }
            };
            outcomes.push(applying.instrument(traced.span().clone()).await?);
        }
        Ok(outcomes)
    }

    /// Applies or dead-letters messages, with one call of the handler. Their keys are locked.
    async fn apply_together(
        &self,
        tx: &mut Tx,
        session: &Session,
        received: &[(TracedMessage<'_>, Receipt)],
        handle_all: HandleAllFn,
    ) -> Result<Vec<Outcome>, Failure> {
        let (mut decisions, mut new) = (Vec::with_capacity(received.len()), Vec::new());
        for (traced, receipt) in received {
            let deciding = self.decide(tx, session, traced.message, *receipt);
            let decision = deciding.instrument(traced.span().clone()).await?;
            if let Decision::Handle { .. } = decision {
                new.push(traced.clone());
            }
            decisions.push(decision);
        }
        if !new.is_empty() {
            handle_all(tx, &new).await?;
        }
        let mut outcomes = Vec::with_capacity(received.len());
        for ((traced, _), decision) in received.iter().zip(decisions) {
            outcomes.push(match decision {
                Decision::Done(outcome) => outcome,
                Decision::Handle { is_blocked, went_back } => {
                    self.supersede(tx, traced.message, is_blocked, went_back).await?
                }
            });
        }
        Ok(outcomes)
    }

    /// Dead-letters a message whose key is blocked. Every other new message is for the handler.
    async fn decide(
        &self,
        tx: &mut Tx,
        session: &Session,
        message: &Message,
        receipt: Receipt,
    ) -> Result<Decision, Failure> {
        match receipt {
            Receipt::Duplicate => Ok(Decision::Done(Outcome::Duplicate)),
            Receipt::HistoryChanged => Err(session.end_in_old_history()),
            Receipt::New { is_blocked: true, .. } if !self.subscription.is_state_topic(&message.topic) => {
                // The outage may have caused the dead letter that blocks the key, so the message is
                // retried.
                if self.outage.is_outage() {
                    return Err(Failure::Transient("every message fails in the database".to_owned()));
                }
                let (group, reason) = (self.subscription.group, "behind a dead letter of its key");
                dead_letter::store(tx, self.service, group, message, reason).await?;
                Ok(Decision::Done(Outcome::DeadLettered))
            }
            Receipt::New { is_blocked, went_back } => Ok(Decision::Handle { is_blocked, went_back }),
        }
    }

    /// Supersedes the dead letters of the message's key if the key is blocked. The handler has
    /// applied the message.
    async fn supersede(
        &self,
        tx: &mut Tx,
        message: &Message,
        is_blocked: bool,
        went_back: bool,
    ) -> Result<Outcome, Failure> {
        let group = self.subscription.group;
        let superseded = if is_blocked { dead_letter::supersede(tx, group, message).await? } else { 0 };
        Ok(Outcome::Applied { went_back, superseded })
    }

    /// Counts and logs the committed result of a message.
    fn report(&self, message: &Message, outcome: Outcome) {
        let (group, topic, sequence) = (self.subscription.group, &message.topic, message.sequence);
        match outcome {
            Outcome::Applied { went_back, superseded } => {
                self.outage.record_success();
                self.metrics.applied.inc();
                // The ids of the publisher have gone back.
                if went_back {
                    tracing::error!(group, topic, sequence, "sequence of a key went back; message applied");
                    self.metrics.went_back.inc();
                }
                if superseded > 0 {
                    tracing::info!(group, topic, superseded, "dead letters superseded by a later state");
                    self.metrics.superseded.inc_by(superseded as u64);
                }
            }
            Outcome::Duplicate => drop(self.metrics.duplicates.inc()),
            Outcome::DeadLettered => drop(self.metrics.dead_letters.inc()),
        }
    }

    async fn dead_letter(&self, session: &Session, message: &Message, reason: &str) -> Result<(), Failure> {
        let group = self.subscription.group;
        let is_new = self
            .db
            .tx(async |tx| {
                let receipts = inbox::receive(tx, group, slice::from_ref(message), &session.history).await?;
                for receipt in receipts {
                    match receipt {
                        Receipt::Duplicate => return Ok(false),
                        Receipt::HistoryChanged => return Err(session.end_in_old_history()),
                        Receipt::New { .. } => {
                            dead_letter::store(tx, self.service, group, message, reason).await?;
                        }
                    }
                }
                Ok::<_, Failure>(true)
            })
            .await?;
        if is_new {
            let Message { topic, position: KafkaPosition { partition, offset, .. }, .. } = message;
            tracing::error!(group, topic, partition, offset, reason, "message dead-lettered");
            self.metrics.dead_letters.inc();
        }
        Ok(())
    }
}
