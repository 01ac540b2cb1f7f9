//! A service with a broker of its own, for one test.
//!
//! Every running service consumes the topics of its broker. On the shared broker, a second instance
//! of a service would publish the events that it derives from them again.

use std::ops::Deref;
use std::sync::OnceLock;

use service::Service;

use crate::broker::EmbeddedBroker;
use crate::bus::{Bus, Published};
use crate::service::{Running, published};

/// A broker for one test, which runs until the process ends.
pub struct DedicatedBroker {
    servers: String,
    topics: Vec<String>,
    bus: OnceLock<Bus>,
}

impl DedicatedBroker {
    /// Starts a broker with the topics of a service.
    ///
    /// # Panics
    /// If the broker does not start.
    pub fn start<S: Service>() -> Self {
        let topics = service::topics::<S>();
        let broker = Box::leak(Box::new(EmbeddedBroker::start(&topics).expect("a broker")));
        Self { servers: broker.bootstrap_servers().expect("an address"), topics, bus: OnceLock::new() }
    }

    /// Returns the value of `KAFKA_BROKERS`.
    pub fn servers(&self) -> &str {
        &self.servers
    }

    /// # Panics
    /// If the broker cannot be reached.
    pub fn bus(&self) -> &Bus {
        self.bus.get_or_init(|| Bus::connect(&self.servers, &self.topics).expect("the bus"))
    }
}

/// A service for one test, with its own broker.
pub struct DedicatedService {
    running: Running,
    broker: DedicatedBroker,
}

impl DedicatedService {
    /// Starts the service with these settings.
    ///
    /// # Panics
    /// If the broker or the service does not start.
    pub fn start<S: Service>(settings: &[(&str, &str)]) -> Self {
        let broker = DedicatedBroker::start::<S>();
        let brokers = [("KAFKA_BROKERS", broker.servers())];
        let settings: Vec<_> = settings.iter().copied().chain(brokers).collect();
        Self { running: Running::start::<S>(&settings), broker }
    }

    pub fn broker(&self) -> &DedicatedBroker {
        &self.broker
    }

    /// Returns the bus of its broker.
    pub fn bus(&self) -> &Bus {
        self.broker.bus()
    }

    /// Returns all committed events of a key, as [`Running::published`] does for the shared broker.
    ///
    /// # Panics
    /// If the events do not arrive.
    pub async fn published(&self, key: impl ToString) -> Vec<Published> {
        published(&self.running.sql().await, self.bus(), &key.to_string()).await
    }
}

impl Deref for DedicatedService {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}
