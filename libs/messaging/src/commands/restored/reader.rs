//! Reads the events of a topic since a time.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::Value;
use time::OffsetDateTime;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::VersionNames;
use crate::bus::Bus;
use crate::commands::offsets::{BROKER_TIMEOUT, partitions_of};
use crate::config::QuietContext;
use crate::contract::message::Message;

const MAX_BATCH_EVENTS: usize = 1_000;
const MAX_BATCH_BYTES: usize = 4 << 20;
/// The maximum number of batches that wait for the database.
const MAX_WAITING_BATCHES: usize = 2;

/// An event that was read.
pub(super) struct ReadEvent {
    pub key: Uuid,
    pub version: i64,
    pub payload: Option<Vec<u8>>,
}

/// The offsets that were read: the first one and the one after the last, for each partition.
#[derive(Default)]
pub(super) struct ReadOffsets {
    partitions: BTreeMap<i32, (i64, i64)>,
    events: usize,
}

impl Display for ReadOffsets {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} events", self.events)?;
        for (partition, (first, end)) in &self.partitions {
            write!(f, ", {partition}: {first}..{end}")?;
        }
        Ok(())
    }
}

/// Reads a topic in a thread of its own, since the calls of librdkafka block.
pub(super) struct TopicReader {
    batches: mpsc::Receiver<Vec<ReadEvent>>,
    reading: JoinHandle<anyhow::Result<ReadOffsets>>,
}

impl TopicReader {
    /// Starts to read the events whose time is not before `from`.
    pub(super) fn start(
        bus: &Bus,
        topic: &'static str,
        from: OffsetDateTime,
        version: Option<VersionNames>,
    ) -> anyhow::Result<Self> {
        let mut config = bus.config.consumer(&format!("{}.restored", bus.service));
        let config = config.set("enable.auto.commit", "false").set("enable.partition.eof", "true");
        // The end of a partition is an error event of librdkafka.
        let client = config.create_with_context(QuietContext)?;
        let (sender, batches) = mpsc::channel(MAX_WAITING_BATCHES);
        let reading = tokio::task::spawn_blocking(move || {
            read(&client, topic, from, version, &sender).with_context(|| format!("failed to read {topic}"))
        });
        Ok(Self { batches, reading })
    }

    /// Returns the next events, or `None` after the last ones or after a failure.
    pub(super) async fn next(&mut self) -> Option<Vec<ReadEvent>> {
        self.batches.recv().await
    }

    /// Returns the offsets that were read, or the failure.
    pub(super) async fn finish(self) -> anyhow::Result<ReadOffsets> {
        self.reading.await?
    }
}

fn read(
    client: &BaseConsumer<QuietContext>,
    topic: &str,
    from: OffsetDateTime,
    version: Option<VersionNames>,
    batches: &mpsc::Sender<Vec<ReadEvent>>,
) -> anyhow::Result<ReadOffsets> {
    let mut read = ReadOffsets { partitions: find_offsets(client, topic, from)?, events: 0 };
    let mut unfinished = read.partitions.clone();
    let mut positions = TopicPartitionList::new();
    for (partition, (first, _)) in &unfinished {
        positions.add_partition_offset(topic, *partition, Offset::Offset(*first))?;
    }
    client.assign(&positions)?;
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let mut last_progress = Instant::now();
    while !unfinished.is_empty() {
        let polled = client.poll(BROKER_TIMEOUT);
        if let Some(Err(error)) = &polled
            && is_connection_error(error)
            && last_progress.elapsed() < BROKER_TIMEOUT
        {
            continue;
        }
        last_progress = Instant::now();
        match polled {
            None => bail!("no message and no end within {BROKER_TIMEOUT:?}"),
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                unfinished.remove(&partition);
            }
            Some(Err(error)) => return Err(error.into()),
            Some(Ok(message)) => {
                let message = Message::from_kafka(&message);
                let position = message.position;
                if unfinished.get(&position.partition).is_some_and(|(_, end)| position.offset + 1 >= *end) {
                    unfinished.remove(&position.partition);
                }
                // The first offset was found by the time of publication, so events that were
                // created before `from` may follow it. They are skipped.
                if message.time.is_none_or(|time| time >= from)
                    && let Some(event) = ReadEvent::of(message, version)
                {
                    bytes += event.payload.as_ref().map_or(0, Vec::len);
                    batch.push(event);
                    read.events += 1;
                }
            }
        }
        if batch.len() >= MAX_BATCH_EVENTS || bytes >= MAX_BATCH_BYTES {
            bytes = 0;
            ensure!(batches.blocking_send(std::mem::take(&mut batch)).is_ok(), "the database failed");
        }
    }
    ensure!(batches.blocking_send(batch).is_ok(), "the database failed");
    Ok(read)
}

/// Returns true if a node of the broker is down. librdkafka connects again by itself, and the node
/// may have nothing that is read.
fn is_connection_error(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown)
    )
}

/// Returns the offset at `from` and the current end of each partition that has messages between
/// them.
fn find_offsets(
    client: &BaseConsumer<QuietContext>,
    topic: &str,
    from: OffsetDateTime,
) -> anyhow::Result<BTreeMap<i32, (i64, i64)>> {
    let mut partitions = partitions_of(client, topic)?;
    ensure!(partitions.count() > 0, "the topic does not exist");
    let from_ms = i64::try_from(from.unix_timestamp_nanos() / 1_000_000)?;
    partitions.set_all_offsets(Offset::Offset(from_ms))?;
    let mut offsets = BTreeMap::new();
    for at_time in client.offsets_for_times(partitions, BROKER_TIMEOUT)?.elements() {
        at_time.error()?;
        let partition = at_time.partition();
        let (beginning, end) = client.fetch_watermarks(topic, partition, BROKER_TIMEOUT)?;
        // A broker without an index of times returns no offset. The partition is then read from its
        // beginning, and events before the time are skipped.
        let first = if let Offset::Offset(offset) = at_time.offset() { offset } else { beginning };
        if first < end {
            offsets.insert(partition, (first, end));
        }
    }
    Ok(offsets)
}

impl ReadEvent {
    /// Returns `None` for a key that is no id of an aggregate.
    fn of(message: Message, version: Option<VersionNames>) -> Option<Self> {
        let key = message.key.parse().ok()?;
        let payload = message.payload;
        let version = version.and_then(|names| {
            let payload: Value = serde_json::from_slice(payload.as_deref()?).ok()?;
            payload.get(names.member)?.as_i64()
        });
        Some(Self { key, version: version.unwrap_or_default(), payload })
    }
}
