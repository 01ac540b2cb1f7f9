//! Dedicated services and brokers, each for one test.
//!
//! Every service on a broker consumes its companies and publishes profiles. A second service on the
//! shared broker would duplicate the events of the shared service.

use std::ops::Deref;
use std::sync::OnceLock;

use chessboard::Service;
use serde_json::Value;
use testkit::broker::EmbeddedBroker;
use testkit::bus::{Bus, Published};
use testkit::eventually;
use testkit::service::Running;

/// A broker for one test, which runs until the process ends.
pub struct DedicatedBroker {
    servers: String,
    bus: OnceLock<Bus>,
}

impl DedicatedBroker {
    /// Starts a broker with the topics of the service.
    pub fn start() -> Self {
        let broker = Box::leak(Box::new(EmbeddedBroker::start(&topics()).unwrap()));
        Self { servers: broker.bootstrap_servers().unwrap(), bus: OnceLock::new() }
    }

    /// Returns the value of `KAFKA_BROKERS`.
    pub fn servers(&self) -> &str {
        &self.servers
    }

    pub fn bus(&self) -> &Bus {
        self.bus.get_or_init(|| Bus::connect(&self.servers, &topics()).unwrap())
    }
}

fn topics() -> Vec<String> {
    service::topics::<Service>()
}

/// A service for one test, with its own broker.
pub struct DedicatedService {
    running: Running,
    broker: DedicatedBroker,
}

impl DedicatedService {
    /// Starts the service with these settings.
    pub fn start(settings: &[(&str, &str)]) -> Self {
        let broker = DedicatedBroker::start();
        let brokers = [("KAFKA_BROKERS", broker.servers())];
        let settings: Vec<_> = settings.iter().copied().chain(brokers).collect();
        Self { running: Running::start::<Service>(&settings), broker }
    }

    pub fn broker(&self) -> &DedicatedBroker {
        &self.broker
    }

    /// Returns the bus of its broker.
    pub fn bus(&self) -> &Bus {
        self.broker.bus()
    }

    /// Returns all committed events of a key, as [`Running::published`] does for the shared broker.
    pub async fn published(&self, key: impl ToString) -> Vec<Published> {
        let (sql, key) = (self.running.sql().await, key.to_string());
        published(&sql, self.bus(), &key).await
    }
}

impl Deref for DedicatedService {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

/// Returns all committed events of a key. `sql` is a connection to the service's tables.
pub async fn published(sql: &tokio_postgres::Client, bus: &Bus, key: &str) -> Vec<Published> {
    eventually("the outbox to be published", async || {
        let waiting = sql.query_one("select count(*) from outbox where key = $1", &[&key]).await;
        (waiting.unwrap().get::<_, i64>(0) == 0).then_some(())
    })
    .await;
    bus.read_to_end().await;
    bus.events(key)
}

/// Returns the payloads of the events of one topic, in their order.
pub fn payloads(events: Vec<Published>, topic: &str) -> Vec<Value> {
    events.into_iter().filter(|event| event.topic == topic).map(|event| event.payload).collect()
}
