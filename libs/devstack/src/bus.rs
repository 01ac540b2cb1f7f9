//! The broker of a stack: somebody else's, one embedded in this process, or a real one of its own.

use std::time::Duration;

use anyhow::{Context, bail};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::types::RDKafkaErrorCode;
use testkit::broker::Embedded;

use crate::kafka::Kafka;
use crate::progress::Step;

/// How long a broker may take to answer while the stack starts.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// In this process and in memory; gone when it ends
    Embedded,
    /// A real Apache Kafka under .dev/, needs Java and Maven
    Kafka,
}

/// A broker that has the topics of every area.
pub(crate) enum Bus {
    External(String),
    Embedded(Embedded),
    Kafka(Kafka),
}

impl Bus {
    /// `KAFKA_BROKERS` wins over the kind that was asked for.
    pub(crate) async fn open(
        external: Option<String>,
        kind: Kind,
        topics: &[String],
        step: &Step,
    ) -> anyhow::Result<Self> {
        let bus = match (external, kind) {
            (Some(brokers), _) => Self::External(brokers),
            (None, Kind::Embedded) => return Ok(Self::Embedded(Embedded::start(topics)?)),
            (None, Kind::Kafka) => Self::Kafka(Kafka::start(step).await?),
        };
        if let Err(error) = create_topics(&bus.brokers()?, topics).await {
            bus.close().await?;
            return Err(error);
        }
        Ok(bus)
    }

    pub(crate) fn brokers(&self) -> anyhow::Result<String> {
        match self {
            Self::External(brokers) => Ok(brokers.clone()),
            Self::Embedded(broker) => broker.bootstrap_servers(),
            Self::Kafka(kafka) => Ok(kafka.brokers()),
        }
    }

    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Self::External(_) => "external broker",
            Self::Embedded(_) => "embedded broker, in memory only: events are gone when the stack stops",
            Self::Kafka(_) => "Apache Kafka, data in .dev/kafka",
        }
    }

    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Kafka(kafka) => kafka.stop().await,
            Self::External(_) | Self::Embedded(_) => Ok(()),
        }
    }
}

/// Makes the topics that are missing.
async fn create_topics(brokers: &str, topics: &[String]) -> anyhow::Result<()> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    let client: BaseConsumer = config.create().context("KAFKA_BROKERS cannot be used")?;
    let metadata = tokio::task::block_in_place(|| client.fetch_metadata(None, PATIENCE))
        .map_err(|_| anyhow::anyhow!("no Kafka broker answers at {brokers}"))?;
    let missing = |topic: &&String| !metadata.topics().iter().any(|known| known.name() == topic.as_str());
    let new: Vec<_> = topics
        .iter()
        .filter(missing)
        .map(|topic| NewTopic::new(topic, 4, TopicReplication::Fixed(-1)))
        .collect();
    if new.is_empty() {
        return Ok(());
    }
    let admin: AdminClient<DefaultClientContext> = config.create()?;
    let options = AdminOptions::new().request_timeout(Some(PATIENCE)).operation_timeout(Some(PATIENCE));
    for result in admin.create_topics(&new, &options).await.context("the topics could not be created")? {
        match result {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((topic, error)) => bail!("topic {topic} could not be created: {error}"),
        }
    }
    Ok(())
}
