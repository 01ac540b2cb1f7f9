//! The steps of `topics grow` at the brokers: reading the positions of groups, and creating
//! partitions.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::groups::GroupInfo;
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::{Offset, TopicPartitionList};
use tokio::time::Instant;

use super::offsets::{BROKER_TIMEOUT, partitions_of};
use crate::bus::Bus;

/// The maximum time until every broker knows new partitions.
const PROPAGATION_TIMEOUT: Duration = Duration::from_mins(2);
const PROPAGATION_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Returns the settings of a client that reads without joining a group.
fn reader_config(bus: &Bus) -> ClientConfig {
    let mut config = bus.config.consumer(&format!("{}.topics", bus.service));
    config.set("enable.auto.commit", "false").set("statistics.interval.ms", "0");
    config
}

/// Returns the number of partitions of a topic that exists.
pub(super) async fn partition_count(bus: &Bus, topic: &str) -> anyhow::Result<i32> {
    let (config, name) = (reader_config(bus), topic.to_owned());
    // librdkafka's calls block.
    let count = tokio::task::spawn_blocking(move || {
        let client: BaseConsumer = config.create()?;
        anyhow::Ok(partitions_of(&client, &name)?.count())
    });
    let count = count.await??;
    ensure!(count > 0, "{topic} does not exist");
    Ok(i32::try_from(count)?)
}

/// The consumer groups of a topic.
#[derive(Debug, clap::Args)]
pub struct Groups {
    /// The consumer groups of the topic, separated by commas; empty if it has none
    #[arg(long = "groups", value_name = "GROUPS", value_delimiter = ',', required = true)]
    named: Vec<String>,
    /// A group that no longer runs, and whose position does not count
    #[arg(long = "ignore-group", value_name = "GROUP")]
    ignored: Vec<String>,
}

/// The consumer groups of a topic, each with a client that reads its position.
pub(super) struct Consumers {
    topic: String,
    groups: Arc<Vec<(String, BaseConsumer)>>,
}

impl Consumers {
    /// Finds the groups that have a position in the topic, or a member to which it is assigned.
    ///
    /// The brokers list only groups that the service may describe. The operator therefore names all
    /// groups that the topic should have. A named group that the service may not describe is an
    /// error.
    pub(super) async fn find(bus: &Bus, topic: &str, groups: &Groups) -> anyhow::Result<Self> {
        let (config, name, ignored) = (reader_config(bus), topic.to_owned(), groups.ignored.clone());
        let named: Vec<_> = groups.named.iter().filter(|group| !group.is_empty()).cloned().collect();
        let find = move || {
            let client: BaseConsumer = config.create()?;
            let partitions = partitions_of(&client, &name)?;
            let listed =
                client.fetch_group_list(None, BROKER_TIMEOUT).context("failed to list the groups")?;
            let listed = listed.groups();
            let unnamed = listed.iter().map(|group| group.name().to_owned()).filter(|id| !named.contains(id));
            let mut groups = Vec::new();
            for id in named.iter().cloned().chain(unnamed).filter(|id| !ignored.contains(id)) {
                let client: BaseConsumer = config.clone().set("group.id", &id).create()?;
                let committed = client.committed_offsets(partitions.clone(), BROKER_TIMEOUT);
                let committed = committed.with_context(|| format!("failed to read the position of {id}"))?;
                let has_position =
                    committed.elements().iter().any(|known| matches!(known.offset(), Offset::Offset(_)));
                let is_assigned =
                    || listed.iter().any(|group| group.name() == id && is_assigned(group, &name));
                if named.contains(&id) || has_position || is_assigned() {
                    groups.push((id, client));
                }
            }
            anyhow::Ok(groups)
        };
        let groups = tokio::task::spawn_blocking(find).await??;
        Ok(Self { topic: topic.to_owned(), groups: Arc::new(groups) })
    }

    /// Returns the names of the groups for the operator.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self.groups.iter().map(|(group, _)| group.as_str()).collect();
        names.join(", ")
    }

    /// Returns the groups that have not applied all messages, each with the number of these
    /// messages.
    pub(super) async fn lagging_groups(&self) -> anyhow::Result<Vec<(String, i64)>> {
        let (topic, groups) = (self.topic.clone(), Arc::clone(&self.groups));
        let find = move || {
            let mut lagging = Vec::new();
            for (group, client) in groups.iter() {
                let left = messages_left(client, &topic)
                    .with_context(|| format!("failed to read the position of {group}"))?;
                if left > 0 {
                    lagging.push((group.clone(), left));
                }
            }
            anyhow::Ok(lagging)
        };
        tokio::task::spawn_blocking(find).await?
    }
}

/// Returns the number of messages that follow the position of the client's group.
fn messages_left(client: &BaseConsumer, topic: &str) -> anyhow::Result<i64> {
    let partitions: TopicPartitionList = partitions_of(client, topic)?;
    let committed = client.committed_offsets(partitions, BROKER_TIMEOUT)?;
    let mut left = 0;
    for partition in committed.elements() {
        let (first, end) = client.fetch_watermarks(topic, partition.partition(), BROKER_TIMEOUT)?;
        // Messages before the first offset have exceeded their retention.
        left += end - position(partition.offset()).max(first);
    }
    Ok(left)
}

/// Returns the next offset of a group, 0 if it has none.
fn position(committed: Offset) -> i64 {
    if let Offset::Offset(next) = committed { next } else { 0 }
}

/// Returns true if a member of the group has a partition of the topic. The bytes of an assignment
/// contain the length and the name of each topic.
fn is_assigned(group: &GroupInfo, topic: &str) -> bool {
    let length = u16::try_from(topic.len()).unwrap_or(u16::MAX).to_be_bytes();
    let named = [length.as_slice(), topic.as_bytes()].concat();
    let mut assignments = group.members().iter().filter_map(|member| member.assignment());
    assignments.any(|assignment| assignment.windows(named.len()).any(|window| window == named))
}

/// Increases the partitions of a topic to `partitions`. Some brokers may learn of the new
/// partitions after the return.
pub(super) async fn create_partitions(bus: &Bus, topic: &str, partitions: i32) -> anyhow::Result<()> {
    let config = reader_config(bus);
    let admin: AdminClient<DefaultClientContext> = config.create()?;
    let options =
        AdminOptions::new().request_timeout(Some(BROKER_TIMEOUT)).operation_timeout(Some(BROKER_TIMEOUT));
    let new = NewPartitions::new(topic, usize::try_from(partitions)?);
    for created in admin.create_partitions([&new], &options).await? {
        if let Err((_, error)) = created {
            bail!(
                "failed to create partitions of {topic}: {error}; its events wait until you run the command \
                 again, or `topics release`"
            );
        }
    }
    Ok(())
}

/// Waits until every broker knows all partitions of a topic.
///
/// A producer asks any broker for the number of partitions. A broker that lags behind would return
/// the earlier number, and the producer would send keys to their earlier partitions for minutes.
pub(super) async fn wait_until_known(bus: &Bus, topic: &str, partitions: i32) -> anyhow::Result<()> {
    let config = reader_config(bus);
    let deadline = Instant::now() + PROPAGATION_TIMEOUT;
    loop {
        let (config, topic) = (config.clone(), topic.to_owned());
        let known = tokio::task::spawn_blocking(move || is_known_everywhere(&config, &topic, partitions));
        match known.await? {
            Ok(true) => return Ok(()),
            outcome if Instant::now() > deadline => {
                outcome?;
                bail!("not every broker knows the new partitions; run the command again");
            }
            _ => tokio::time::sleep(PROPAGATION_CHECK_INTERVAL).await,
        }
    }
}

/// Returns true if each broker knows `partitions` partitions of the topic with a leader.
fn is_known_everywhere(config: &ClientConfig, topic: &str, partitions: i32) -> anyhow::Result<bool> {
    let client: BaseConsumer = config.create()?;
    let metadata = client.fetch_metadata(Some(topic), BROKER_TIMEOUT)?;
    for broker in metadata.brokers() {
        let address = format!("{}:{}", broker.host(), broker.port());
        // Each broker gets a new client, since a client that knows all brokers may ask any of them.
        let client: BaseConsumer = config.clone().set("bootstrap.servers", address).create()?;
        let known = client.fetch_metadata(Some(topic), BROKER_TIMEOUT)?;
        if count_leaders(&known) != usize::try_from(partitions)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the number of partitions that have a leader.
fn count_leaders(metadata: &Metadata) -> usize {
    let partitions = metadata.topics().iter().flat_map(MetadataTopic::partitions);
    partitions.filter(|partition| partition.leader() >= 0).count()
}
