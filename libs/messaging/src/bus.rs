//! A service's side of the bus: what it publishes is relayed, what it subscribes to is consumed.

use std::sync::Arc;

use db::Db;
use runtime::{Phase, Process};
use tokio::sync::Semaphore;

use crate::backlog::Backlog;
use crate::consumer::{Consumer, Room};
use crate::consumer::partitions::Budget;
use crate::operations::republish;
use crate::relay::Relay;
use crate::{Config, Operation, Republished, Subscription};

/// Messages that the consumers of a process apply at the same time.
const AT_ONCE: usize = 4;

/// One service's bus. Cloning is cheap.
#[derive(Clone)]
pub struct Bus {
    pub(crate) service: &'static str,
    pub(crate) db: Db,
    pub(crate) config: Config,
    pub(crate) subscriptions: &'static [Subscription],
}

impl Bus {
    /// The bus of `service`, whose outbox and inbox are in `db`.
    pub fn new(
        service: &'static str,
        db: Db,
        config: Config,
        subscriptions: &'static [Subscription],
    ) -> Self {
        Self { service, db, config, subscriptions }
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
        let backlog = Backlog::new(self.db.clone(), process.metrics(), &self.config)?;
        process.spawn(Phase::Delivery, "backlog", |ending| backlog.watch(ending));
        let room = Room {
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            budget: Arc::new(Budget::new(self.config.consumer_bytes)),
        };
        for subscription in self.subscriptions.iter().copied() {
            let config = self.config.clone();
            let consumer = Consumer::new(&self, process.metrics(), config, subscription, room.clone());
            process.spawn(Phase::Work, subscription.group, |ending| consumer.run(ending));
        }
        Ok(())
    }

    /// Does an operator's command, with what can be told anew, beside whatever replicas are running.
    ///
    /// # Errors
    /// A database that is away, and what the command says of itself.
    pub async fn operate(&self, operation: Operation, republished: &[Republished]) -> anyhow::Result<()> {
        match operation {
            Operation::DeadLetters(command) => command.execute(self).await,
            Operation::Consumers(command) => command.execute(self).await,
            Operation::Parked(command) => command.execute(self).await,
            Operation::Republish { kind } => republish::execute(self, republished, &kind).await,
            Operation::Restored => republish::restored(self).await,
        }
    }

    pub(crate) fn subscription(&self, group: &str) -> Option<&Subscription> {
        self.subscriptions.iter().find(|subscription| subscription.group == group)
    }
}
