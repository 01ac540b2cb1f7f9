//! The start of a service's relay, consumers and backlog metrics.

use db::Db;
use runtime::{Phase, Process};

use crate::backlog::Backlog;
use crate::config::Config;
use crate::consumer::{Consumer, ConsumerLimits};
use crate::relay::Relay;
use crate::subscription::Subscription;

/// The connection of one service to Kafka. Cloning is cheap.
#[derive(Clone)]
pub struct Bus {
    pub(crate) service: &'static str,
    pub(crate) db: Db,
    pub(crate) config: Config,
    pub(crate) subscriptions: &'static [Subscription],
}

impl Bus {
    /// Returns the bus of `service`, whose outbox and inbox are in `db`.
    pub fn new(
        service: &'static str,
        db: Db,
        config: Config,
        subscriptions: &'static [Subscription],
    ) -> Self {
        Self { service, db, config, subscriptions }
    }

    /// Starts the relay and the consumers as parts of `process`, and logs which of `topics` are
    /// missing. Any number of replicas may run these parts.
    ///
    /// # Errors
    /// librdkafka rejects a setting, or the built-in declaration of topics cannot be read.
    pub fn start(self, process: &Process, topics: Vec<String>) -> anyhow::Result<()> {
        let Self { service, db, config, subscriptions } = self;
        config.require_broker(process)?;
        let topics_config = config.clone();
        process.spawn(Phase::Work, "topics", |stopping| topics_config.log_missing_topics(topics, stopping));
        let relay = Relay::new(service, db.clone(), config.clone(), process.metrics());
        process.spawn(Phase::Delivery, "relay", |stopping| relay.run(stopping));
        let backlog = Backlog::new(db.clone(), &config, process.metrics())?;
        process.spawn(Phase::Delivery, "backlog", |stopping| backlog.run(stopping));
        let limits = ConsumerLimits::new(config.consumer_bytes);
        for subscription in subscriptions.iter().copied() {
            let (db, config, limits) = (db.clone(), config.clone(), limits.clone());
            let consumer = Consumer::new(service, db, config, subscription, limits, process.metrics());
            process.spawn(Phase::Work, subscription.group, |stopping| consumer.run(stopping));
        }
        Ok(())
    }

    pub(crate) fn subscription(&self, group: &str) -> Option<&Subscription> {
        self.subscriptions.iter().find(|subscription| subscription.group == group)
    }
}
