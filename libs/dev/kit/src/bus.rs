//! The broker of a stack: an external one, one embedded in this process, or an Apache Kafka of its
//! own.

use anyhow::{Context, ensure};
use messaging::topics::Topics;
use rdkafka::ClientConfig;
use testkit::broker::EmbeddedBroker;
use testkit::kafka::Cluster;

use crate::kafka;
use crate::progress::Step;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// In this process and in memory; gone when it ends
    Embedded,
    /// A real Apache Kafka under .dev/; needs Java and Maven
    Kafka,
}

/// A broker with the topics of every service.
pub enum Bus {
    External(String),
    Embedded(EmbeddedBroker),
    Kafka(Cluster),
}

impl Bus {
    /// The names of the data folders of Apache Kafka, for the stack and for the tests.
    pub const STACK: &'static str = "stack";
    pub const TESTS: &'static str = "test";

    /// Opens the broker that `KAFKA_BROKERS` names, else one of this kind. Apache Kafka keeps its
    /// data under `name`.
    pub async fn open(kind: Kind, name: &str, topics: &[String], step: &Step) -> anyhow::Result<Self> {
        let bus = match (crate::variable("KAFKA_BROKERS"), kind) {
            (Some(brokers), _) => Self::External(brokers),
            (None, Kind::Embedded) => return Ok(Self::Embedded(EmbeddedBroker::start(topics)?)),
            (None, Kind::Kafka) => Self::Kafka(kafka::start(name, kafka::LOOPBACK, 1, step).await?),
        };
        if let Err(error) = create_topics(&bus.brokers()?, topics).await {
            bus.close().await?;
            return Err(error);
        }
        Ok(bus)
    }

    pub fn brokers(&self) -> anyhow::Result<String> {
        match self {
            Self::External(brokers) => Ok(brokers.clone()),
            Self::Embedded(broker) => broker.bootstrap_servers(),
            Self::Kafka(kafka) => Ok(kafka.bootstrap_servers()),
        }
    }

    pub fn describe(&self) -> &'static str {
        match self {
            Self::External(_) => "external broker",
            Self::Embedded(_) => "embedded broker, in memory until the stack stops",
            Self::Kafka(_) => "Apache Kafka, data in .dev/kafka",
        }
    }

    pub async fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Kafka(kafka) => kafka.stop().await,
            Self::External(_) | Self::Embedded(_) => Ok(()),
        }
    }
}

/// Creates the missing topics.
async fn create_topics(brokers: &str, topics: &[String]) -> anyhow::Result<()> {
    let declared = Topics::built_in()?.with_default_replication();
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", brokers);
    let outcome =
        declared.create_missing(&client, topics).await.with_context(|| format!("the broker at {brokers}"))?;
    ensure!(outcome.failed.is_empty(), "{}", outcome.failed.join("; "));
    for difference in outcome.mismatched {
        eprintln!("{difference}");
    }
    Ok(())
}
