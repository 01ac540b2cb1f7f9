//! The commands that move the offsets of consumer groups back to a time or to the beginning.

use std::time::Duration;

use anyhow::{Context, ensure};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::metadata::MetadataTopic;
use rdkafka::{Offset, TopicPartitionList};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::bus::Bus;
use crate::schema::{dead_letter, deferred_message, inbox, inbox_event};
use crate::subscription::Subscription;

pub(super) const BROKER_TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout of each statement of a rebuild, and of the idle transaction while the offsets move.
const REBUILD_TIMEOUT: Duration = Duration::from_mins(30);

const GROUP_IS_RUNNING: &str = "stop all replicas of this group first";

/// The commands for consumers. All replicas of the consumers must be stopped.
#[derive(Debug, clap::Subcommand)]
pub enum ConsumerCommand {
    /// Move all groups back to a time, after a restore of the database. Messages that are in the
    /// inbox are not applied again
    Rewind {
        /// The time, as in 2026-05-01T12:00:00Z. A time that is too early is safe
        #[arg(long, value_parser = parse_time)]
        to: OffsetDateTime,
    },
    /// Consume again all messages that Kafka has, as a new group would
    Rebuild {
        /// The consumer group
        group: String,
    },
}

pub(super) fn parse_time(text: &str) -> Result<OffsetDateTime, time::error::Parse> {
    OffsetDateTime::parse(text, &Rfc3339)
}

/// The position to which the offsets of a group move.
#[derive(Clone, Copy)]
enum Target {
    /// The first message that was published at this time or later. Offsets never move forward.
    Time(OffsetDateTime),
    Beginning,
}

impl ConsumerCommand {
    pub(super) async fn execute(self, bus: &Bus) -> anyhow::Result<()> {
        match self {
            Self::Rewind { to } => {
                for subscription in bus.subscriptions {
                    move_offsets(bus, subscription, Target::Time(to)).await?;
                }
                Ok(())
            }
            Self::Rebuild { group } => rebuild(bus, &group).await,
        }
    }
}

async fn rebuild(bus: &Bus, group: &str) -> anyhow::Result<()> {
    let groups: Vec<_> = bus.subscriptions.iter().map(|subscription| subscription.group).collect();
    let subscription =
        bus.subscription(group).with_context(|| format!("no such group; the groups are {groups:?}"))?;
    // The deletion is committed only if the offsets have moved. With only one of these changes,
    // messages would be applied twice or never.
    bus.db
        .tx(async |tx| {
            // The transaction may be long, since no replica of the group is running.
            tx.extend_timeout(REBUILD_TIMEOUT).await?;
            let letters = dead_letter::table
                .filter(dead_letter::consumer.eq(group))
                .filter(dead_letter::superseded_by.is_null());
            let letters: i64 = letters.count().get_result(tx.conn()).await.map_err(db::Error::from)?;
            ensure!(letters == 0, "replay or discard the {letters} dead letters of the group first");
            let keys = inbox::table.filter(inbox::consumer.eq(group));
            diesel::delete(keys).execute(tx.conn()).await.map_err(db::Error::from)?;
            let events = inbox_event::table.filter(inbox_event::consumer.eq(group));
            diesel::delete(events).execute(tx.conn()).await.map_err(db::Error::from)?;
            let deferred = deferred_message::table.filter(deferred_message::consumer.eq(group));
            diesel::delete(deferred).execute(tx.conn()).await.map_err(db::Error::from)?;
            move_offsets(bus, subscription, Target::Beginning).await
        })
        .await
}

async fn move_offsets(bus: &Bus, subscription: &Subscription, target: Target) -> anyhow::Result<()> {
    let (group, topics) = (subscription.group, subscription.topics);
    let client: BaseConsumer = bus.config.consumer(group).set("enable.auto.commit", "false").create()?;
    let group_id = bus.config.group_id(group);
    // librdkafka's calls block.
    let moved = tokio::task::spawn_blocking(move || {
        let found = client.fetch_group_list(Some(&group_id), BROKER_TIMEOUT)?;
        ensure!(found.groups().iter().all(|group| group.members().is_empty()), GROUP_IS_RUNNING);
        let mut moved = TopicPartitionList::new();
        for topic in topics {
            match target {
                Target::Beginning => add_beginnings(&client, topic, &mut moved)?,
                Target::Time(time) => add_earlier_offsets(&client, topic, time, &mut moved)?,
            }
        }
        // The list is empty if no message was published since the time, or if the command has run
        // before.
        if moved.count() > 0 {
            client.commit(&moved, CommitMode::Sync).context(GROUP_IS_RUNNING)?;
        }
        anyhow::Ok(moved.count())
    });
    let moved = moved.await?.with_context(|| group.to_owned())?;
    println!("{group}: {moved} partitions");
    Ok(())
}

/// Returns the partitions of a topic, without offsets.
pub(super) fn partitions_of<C: ConsumerContext>(
    client: &BaseConsumer<C>,
    topic: &str,
) -> anyhow::Result<TopicPartitionList> {
    let metadata = client.fetch_metadata(Some(topic), BROKER_TIMEOUT)?;
    let mut partitions = TopicPartitionList::new();
    for partition in metadata.topics().iter().flat_map(MetadataTopic::partitions) {
        partitions.add_partition(topic, partition.id());
    }
    Ok(partitions)
}

/// Adds the first offset of each partition of a topic.
fn add_beginnings(client: &BaseConsumer, topic: &str, moved: &mut TopicPartitionList) -> anyhow::Result<()> {
    for partition in partitions_of(client, topic)?.elements() {
        let (beginning, _) = client.fetch_watermarks(topic, partition.partition(), BROKER_TIMEOUT)?;
        moved.add_partition_offset(topic, partition.partition(), Offset::Offset(beginning))?;
    }
    Ok(())
}

/// Adds the offset at `time` of each partition whose committed offset is later.
fn add_earlier_offsets(
    client: &BaseConsumer,
    topic: &str,
    time: OffsetDateTime,
    moved: &mut TopicPartitionList,
) -> anyhow::Result<()> {
    let mut partitions = partitions_of(client, topic)?;
    let time_ms = i64::try_from(time.unix_timestamp_nanos() / 1_000_000)?;
    let committed = client.committed_offsets(partitions.clone(), BROKER_TIMEOUT)?;
    partitions.set_all_offsets(Offset::Offset(time_ms))?;
    let at_time = client.offsets_for_times(partitions, BROKER_TIMEOUT)?;
    for partition in at_time.elements() {
        let committed =
            committed.find_partition(topic, partition.partition()).map(|committed| committed.offset());
        // Without a committed offset, the group starts at the beginning anyway. If no message was
        // published since the time, the offset stays.
        if let (Offset::Offset(at_time), Some(Offset::Offset(committed))) = (partition.offset(), committed)
            && at_time < committed
        {
            moved.add_partition_offset(topic, partition.partition(), Offset::Offset(at_time))?;
        }
    }
    Ok(())
}
