//! Where consumers are in their topics, for operators: back to a time after a restore, or to the beginning.

use std::time::Duration;

use anyhow::{Context, ensure};
use diesel::prelude::*;
use diesel::sql_types::Text;
use diesel_async::RunQueryDsl;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::metadata::MetadataTopic;
use rdkafka::{Offset, TopicPartitionList};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::schema::{dead_letter, inbox, inbox_event};
use crate::{Bus, Subscription};

/// How long a broker may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long forgetting what a group has seen may take, and moving its offsets after that.
const FORGETTING: Duration = Duration::from_mins(30);

const RUNNING: &str = "replicas of this group have to be stopped before";

/// What can be done with consumers while none of their replicas runs.
#[derive(Debug, clap::Subcommand)]
pub enum Consumers {
    /// Have all groups take again what was published since, but for what the inbox has: after a restore
    Rewind {
        /// As in 2026-05-01T12:00:00Z; earlier than it has to be does no harm
        #[arg(long, value_parser = time_of)]
        to: OffsetDateTime,
    },
    /// Have a group take all that Kafka still has as if it had never seen it
    Rebuild { group: String },
}

fn time_of(text: &str) -> Result<OffsetDateTime, time::error::Parse> {
    OffsetDateTime::parse(text, &Rfc3339)
}

/// Where the offsets of a group go.
#[derive(Clone, Copy)]
enum To {
    /// Never forward: what waited at that time was published before it.
    Time(OffsetDateTime),
    Beginning,
}

impl Consumers {
    pub(crate) async fn execute(self, bus: &Bus) -> anyhow::Result<()> {
        match self {
            Self::Rewind { to } => {
                for subscription in bus.subscriptions {
                    go(bus, subscription, To::Time(to)).await?;
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
        bus.subscription(group).with_context(|| format!("no such group; there are {groups:?}"))?;
    // Kept only if the offsets have moved: with the one and without the other it would apply things twice, or never.
    bus.db
        .tx(async |tx| {
            // As long as it takes: nobody else works on this group's rows meanwhile.
            tx.allow(FORGETTING).await?;
            let letters = dead_letter::table.filter(dead_letter::consumer.eq(group)).count();
            let letters: i64 = letters.get_result(tx.conn()).await.map_err(db::Error::from)?;
            ensure!(
                letters == 0,
                "{letters} dead letters of the group are to be replayed or discarded before"
            );
            let seen = inbox::table.filter(inbox::consumer.eq(group));
            diesel::delete(seen).execute(tx.conn()).await.map_err(db::Error::from)?;
            let seen = inbox_event::table.filter(inbox_event::consumer.eq(group));
            diesel::delete(seen).execute(tx.conn()).await.map_err(db::Error::from)?;
            for table in ["thing_fact", "thing_waiting"] {
                let known = diesel::sql_query(format!("delete from {table} where consumer = $1"));
                known.bind::<Text, _>(group).execute(tx.conn()).await.map_err(db::Error::from)?;
            }
            go(bus, subscription, To::Beginning).await
        })
        .await
}

async fn go(bus: &Bus, subscription: &Subscription, to: To) -> anyhow::Result<()> {
    let (group, topics) = (subscription.group, subscription.topics);
    let client: BaseConsumer = bus.config.consumer(group).set("enable.auto.commit", "false").create()?;
    // librdkafka's calls block.
    let moved = tokio::task::spawn_blocking(move || {
        let found = client.fetch_group_list(Some(group), PATIENCE)?;
        ensure!(found.groups().iter().all(|group| group.members().is_empty()), RUNNING);
        let mut moved = TopicPartitionList::new();
        for topic in topics {
            go_in_topic(&client, topic, to, &mut moved)?;
        }
        // Nothing came since, or it has been done before.
        if moved.count() > 0 {
            client.commit(&moved, CommitMode::Sync).context(RUNNING)?;
        }
        anyhow::Ok(moved.count())
    });
    let moved = moved.await?.with_context(|| group.to_owned())?;
    println!("{group}: {moved} partitions");
    Ok(())
}

/// Adds where the group goes to in each partition of a topic.
fn go_in_topic(
    client: &BaseConsumer,
    topic: &str,
    to: To,
    moved: &mut TopicPartitionList,
) -> anyhow::Result<()> {
    let metadata = client.fetch_metadata(Some(topic), PATIENCE)?;
    let partitions = metadata.topics().iter().flat_map(MetadataTopic::partitions);
    let mut asked = TopicPartitionList::new();
    for partition in partitions {
        asked.add_partition(topic, partition.id());
    }
    let time = match to {
        To::Beginning => {
            for partition in asked.elements() {
                let (beginning, _) = client.fetch_watermarks(topic, partition.partition(), PATIENCE)?;
                moved.add_partition_offset(topic, partition.partition(), Offset::Offset(beginning))?;
            }
            return Ok(());
        }
        To::Time(time) => i64::try_from(time.unix_timestamp_nanos() / 1_000_000)?,
    };
    let reached = client.committed_offsets(asked.clone(), PATIENCE)?;
    asked.set_all_offsets(Offset::Offset(time))?;
    let then = client.offsets_for_times(asked, PATIENCE)?;
    for partition in then.elements() {
        let reached = reached.find_partition(topic, partition.partition()).map(|reached| reached.offset());
        // Where it has committed nothing it begins at the beginning, and where nothing came since it stays.
        if let (Offset::Offset(then), Some(Offset::Offset(reached))) = (partition.offset(), reached)
            && then < reached
        {
            moved.add_partition_offset(topic, partition.partition(), Offset::Offset(then))?;
        }
    }
    Ok(())
}
