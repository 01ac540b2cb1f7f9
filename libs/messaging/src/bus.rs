//! A service's side of the bus: what it publishes is relayed, what it subscribes to is consumed.

use std::panic::AssertUnwindSafe;

use db::{Db, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use runtime::{Phase, Process};

use crate::backlog::Backlog;
use crate::consumer::Consumer;
use crate::relay::Relay;
use crate::{Config, Failure, Handler, Message, Operation};

/// One service's bus. Cloning is cheap.
#[derive(Clone)]
pub struct Bus {
    pub(crate) service: &'static str,
    pub(crate) db: Db,
    config: Config,
    subscriptions: Vec<Subscription>,
}

/// A [`Handler`] as a value.
#[derive(Clone, Copy)]
pub(crate) struct Subscription {
    pub group: &'static str,
    pub topics: &'static [&'static str],
    handle: for<'a> fn(&'a mut Tx, &'a Message) -> BoxFuture<'a, Result<(), Failure>>,
}

impl Subscription {
    /// Applies a message. One that the handler panics over is a message that cannot be taken.
    pub async fn handle(&self, tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        AssertUnwindSafe((self.handle)(tx, message))
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(Failure::Rejected("the handler panicked".to_owned())))
    }
}

impl Bus {
    /// The bus of `service`, whose outbox and inbox are in `db`.
    pub fn new(service: &'static str, db: Db, config: Config) -> Self {
        Self { service, db, config, subscriptions: Vec::new() }
    }

    /// Has `H` handle what its producer publishes.
    #[must_use]
    pub fn subscribe<H: Handler + 'static>(mut self) -> Self {
        self.subscriptions.push(Subscription {
            group: H::GROUP,
            topics: H::TOPICS,
            handle: |tx, message| Box::pin(H::handle(tx, message)),
        });
        self
    }

    /// Relays and consumes as parts of `process`, in as many replicas as there are. Tells of those of
    /// `topics` that are missing.
    ///
    /// # Errors
    /// Settings that librdkafka does not know.
    pub fn start(self, process: &Process, topics: Vec<String>) -> anyhow::Result<()> {
        self.config.require_broker(process)?;
        let config = self.config.clone();
        process.spawn(Phase::Work, "topics", |ending| config.watch_topics(topics, ending));
        let relay = Relay::new(&self, process.metrics(), self.config.clone());
        process.spawn(Phase::Delivery, "relay", |ending| relay.run(ending));
        let backlog = Backlog::new(self.db.clone(), process.metrics());
        process.spawn(Phase::Delivery, "backlog", |ending| backlog.watch(ending));
        for subscription in self.subscriptions.iter().copied() {
            let consumer = Consumer::new(&self, process.metrics(), self.config.clone(), subscription);
            process.spawn(Phase::Work, subscription.group, |ending| consumer.run(ending));
        }
        Ok(())
    }

    /// Does an operator's command, beside whatever replicas are running.
    ///
    /// # Errors
    /// A database that is away, and what the command says of itself.
    pub async fn operate(&self, operation: Operation) -> anyhow::Result<()> {
        match operation {
            Operation::DeadLetters(command) => command.execute(self).await,
            Operation::Parked(command) => command.execute(self).await,
        }
    }

    pub(crate) fn subscription(&self, group: &str) -> Option<&Subscription> {
        self.subscriptions.iter().find(|subscription| subscription.group == group)
    }
}
