//! Services and brokers of one test.
//!
//! Every service of this process consumes the companies of the shared broker and publishes profiles of them. A test that starts
//! another service gives it another broker, so that each event of the shared broker is of the shared service.

use std::ops::Deref;
use std::sync::OnceLock;

use chessboard::Service;
use serde_json::Value;
use testkit::broker::Embedded;
use testkit::bus::{Bus, Published};
use testkit::eventually;
use testkit::service::Running;

/// A broker that one test uses. It runs until the process ends.
pub struct Broker {
    servers: String,
    bus: OnceLock<Bus>,
}

impl Broker {
    /// Starts a broker that has the topics of the service.
    pub fn start() -> Self {
        let broker = Box::leak(Box::new(Embedded::start(&topics()).unwrap()));
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

/// A service that one test uses, with its broker.
pub struct Own {
    running: Running,
    broker: Broker,
}

impl Own {
    /// Starts the service with these settings.
    pub fn start(settings: &[(&str, &str)]) -> Self {
        let broker = Broker::start();
        let brokers = [("KAFKA_BROKERS", broker.servers())];
        let settings: Vec<_> = settings.iter().copied().chain(brokers).collect();
        Self { running: Running::start::<Service>(&settings), broker }
    }

    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Returns the bus of its broker.
    pub fn bus(&self) -> &Bus {
        self.broker.bus()
    }

    /// Returns every event of `key` that the service has committed, as [`Running::published`] does for the shared broker.
    pub async fn published(&self, key: impl ToString) -> Vec<Published> {
        let (sql, key) = (self.running.sql().await, key.to_string());
        published(&sql, self.bus(), &key).await
    }
}

impl Deref for Own {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

/// Returns every event of `key` that a service has committed. `sql` is a connection to its tables.
pub async fn published(sql: &tokio_postgres::Client, bus: &Bus, key: &str) -> Vec<Published> {
    eventually("the outbox to be published", async || {
        let waiting = sql.query_one("select count(*) from outbox where key = $1", &[&key]).await;
        (waiting.unwrap().get::<_, i64>(0) == 0).then_some(())
    })
    .await;
    bus.read_to_end().await;
    bus.events(key)
}

/// Returns the payloads of these events on one topic, in their order.
pub fn payloads(events: Vec<Published>, topic: &str) -> Vec<Value> {
    events.into_iter().filter(|event| event.topic == topic).map(|event| event.payload).collect()
}
