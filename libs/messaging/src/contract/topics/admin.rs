//! The administration of topics on the brokers: creating them and counting their partitions.

use std::collections::HashMap;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::types::RDKafkaErrorCode;

use super::{TopicSpec, Topics};

const BROKER_TIMEOUT: Duration = Duration::from_secs(10);

/// The result of [`Topics::create_missing`]. Topics that exist as declared are in no list.
#[derive(Debug, Default)]
pub struct TopicCreation {
    pub created: Vec<String>,
    /// A sentence for each topic that is still missing.
    pub failed: Vec<String>,
    /// A sentence for each topic whose number of partitions differs from the declaration.
    pub mismatched: Vec<String>,
}

impl Topics {
    /// Creates those of `names` that are missing. Existing topics are not altered.
    ///
    /// # Errors
    /// No broker answers, or librdkafka does not accept the settings of `client`.
    pub async fn create_missing(
        &self,
        client: &ClientConfig,
        names: &[String],
    ) -> anyhow::Result<TopicCreation> {
        let existing = partition_counts(client).await?;
        let mut creation = TopicCreation::default();
        let mut missing = Vec::new();
        for name in names {
            match (self.spec(name), existing.get(name)) {
                (None, _) => creation.failed.push(format!("{name} is not declared")),
                (Some(spec), None) => missing.push((name, spec)),
                (Some(spec), Some(found)) if *found != spec.partitions => {
                    let declared = spec.partitions;
                    creation.mismatched.push(format!(
                        "{name} has {found} partitions instead of {declared} and is not altered"
                    ));
                }
                (Some(_), Some(_)) => {}
            }
        }
        if !missing.is_empty() {
            create(client, &missing, &mut creation).await?;
        }
        Ok(creation)
    }
}

async fn create(
    client: &ClientConfig,
    missing: &[(&String, TopicSpec)],
    creation: &mut TopicCreation,
) -> anyhow::Result<()> {
    let new: Vec<_> = missing
        .iter()
        .map(|(name, spec)| {
            // -1 selects the default of the brokers.
            let replicas = TopicReplication::Fixed(spec.replicas.unwrap_or(-1));
            let new = NewTopic::new(name, spec.partitions, replicas);
            spec.settings.iter().fold(new, |new, (setting, value)| new.set(setting, value))
        })
        .collect();
    let admin: AdminClient<DefaultClientContext> = client.create()?;
    let options =
        AdminOptions::new().request_timeout(Some(BROKER_TIMEOUT)).operation_timeout(Some(BROKER_TIMEOUT));
    match admin.create_topics(&new, &options).await {
        Ok(results) => {
            for (result, (name, _)) in std::iter::zip(results, missing) {
                match result {
                    Ok(_) => creation.created.push((*name).clone()),
                    // Another replica of the service has created the topic.
                    Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                    Err((_, error)) => creation.failed.push(format!("failed to create {name}: {error}")),
                }
            }
        }
        Err(error) => {
            let failed = missing.iter().map(|(name, _)| format!("failed to create {name}: {error}"));
            creation.failed.extend(failed);
        }
    }
    Ok(())
}

/// Returns the number of partitions of each topic on the brokers.
pub(crate) async fn partition_counts(client: &ClientConfig) -> anyhow::Result<HashMap<String, i32>> {
    let client: BaseProducer = client.create()?;
    // librdkafka's call blocks.
    let metadata =
        tokio::task::spawn_blocking(move || client.client().fetch_metadata(None, BROKER_TIMEOUT)).await??;
    let topics = metadata.topics().iter();
    Ok(topics
        .map(|topic| (topic.name().to_owned(), i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX)))
        .collect())
}
