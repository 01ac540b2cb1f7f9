//! The commands for the partitions of a service's own topics.
//!
//! More partitions move keys to other partitions, so a later event of a key could overtake an
//! earlier one. A topic therefore grows while the relay holds its events, and after every consumer
//! group has applied the messages of its present partitions.

use std::time::Duration;

use anyhow::ensure;
use db::Db;

use super::growth::{Consumers, Groups, create_partitions, partition_count, wait_until_known};
use super::lock::{Run, RunLock};
use crate::bus::Bus;
use crate::contract::asyncapi::PublishedEvent;
use crate::lanes;
use crate::relay::Lease;

const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The number of checks after which the command prints the lagging groups again.
const CHECKS_PER_REPORT: u32 = 20;

#[derive(Debug, clap::Subcommand)]
pub enum TopicCommand {
    /// Increase the partitions of a topic of this service. Its events wait until every consumer
    /// group has applied the earlier ones. Run the command again after an interruption
    Grow {
        topic: String,
        /// The number of partitions that the topic will have
        #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
        partitions: i32,
        #[command(flatten)]
        groups: Groups,
    },
    /// Release a topic whose growth was interrupted before it had more partitions
    Release { topic: String },
}

impl TopicCommand {
    pub(super) async fn execute(self, bus: &Bus, published: &[PublishedEvent]) -> anyhow::Result<()> {
        let (Self::Grow { topic, .. } | Self::Release { topic }) = &self;
        let is_own = published.iter().any(|event| event.topic == topic);
        ensure!(is_own, "{} does not publish to {topic}", bus.service);
        let _lock = RunLock::acquire(&bus.db, Run::Grow).await?;
        match &self {
            Self::Grow { topic, partitions, groups } => grow(bus, topic, *partitions, groups).await,
            Self::Release { topic } => release(bus, topic).await,
        }
    }
}

/// Runs the steps that are left. An interrupted run may have finished any of the steps.
async fn grow(bus: &Bus, topic: &str, partitions: i32, groups: &Groups) -> anyhow::Result<()> {
    let present = partition_count(bus, topic).await?;
    ensure!(present <= partitions, "{topic} has {present} partitions, and Kafka removes none");
    if partitions_when_held(&bus.db, topic).await?.is_none() {
        if present == partitions {
            println!("{topic} has {partitions} partitions");
            return Ok(());
        }
        hold(&bus.db, topic, present).await?;
    }
    // Wait even if an interrupted run has held the topic, since that run may not have waited.
    tokio::time::sleep(Lease::INTERRUPT_DELAY).await;
    println!("{topic} is held; its events wait until this command, or a repetition of it, has ended");
    drain(&Consumers::find(bus, topic, groups).await?).await?;
    // A restore of the database may have released the topic.
    ensure!(
        partitions_when_held(&bus.db, topic).await?.is_some(),
        "{topic} is no longer held; run the command again"
    );
    if present < partitions {
        create_partitions(bus, topic, partitions).await?;
    }
    // Wait even if an interrupted run has created the partitions, since that run may not have
    // waited.
    wait_until_known(bus, topic, partitions).await?;
    lanes::release(&mut *bus.db.conn().await?, topic).await?;
    println!("{topic} has {partitions} partitions and is released");
    Ok(())
}

/// Holds the events of a topic, and ends the session of the relay.
///
/// The next session reads no event of the topic. Its producer therefore does not know the topic,
/// and fetches the new number of partitions after the release.
async fn hold(db: &Db, topic: &str, partitions: i32) -> Result<(), db::Error> {
    db.tx(async |tx| {
        lanes::hold(tx, topic, partitions).await?;
        Lease::interrupt(tx).await
    })
    .await
}

/// Waits until every consumer group has applied all messages of the topic.
async fn drain(consumers: &Consumers) -> anyhow::Result<()> {
    println!("consumer groups: {}", consumers.names());
    let mut checks = 0_u32;
    loop {
        let lagging = consumers.lagging_groups().await?;
        if lagging.is_empty() {
            return Ok(());
        }
        if checks.is_multiple_of(CHECKS_PER_REPORT) {
            for (group, messages) in lagging {
                println!("{group} has {messages} messages left");
            }
        }
        checks += 1;
        tokio::time::sleep(DRAIN_CHECK_INTERVAL).await;
    }
}

async fn release(bus: &Bus, topic: &str) -> anyhow::Result<()> {
    let Some(before) = partitions_when_held(&bus.db, topic).await? else {
        println!("{topic} is not held");
        return Ok(());
    };
    let present = partition_count(bus, topic).await?;
    ensure!(
        present == before,
        "{topic} had {before} partitions and has {present}; run `topics grow` with --partitions {present}"
    );
    lanes::release(&mut *bus.db.conn().await?, topic).await?;
    println!("{topic} has {present} partitions and is released");
    Ok(())
}

async fn partitions_when_held(db: &Db, topic: &str) -> Result<Option<i32>, db::Error> {
    lanes::partitions_when_held(&mut *db.conn().await?, topic).await
}
