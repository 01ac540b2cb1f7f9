//! `cargo dev events`: follows the bus and prints each message.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use console::style;
use rdkafka::consumer::{BaseConsumer, Consumer, StreamConsumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::stack::Stack;

/// Timeout of one request to the broker.
const BROKER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without a message after which the follower searches for new topics.
const TOPIC_REFRESH_INTERVAL: Duration = Duration::from_secs(2);

/// Follow the bus of the running stack: key, type, sequence, headers, payload
#[derive(Args)]
pub struct Events {
    /// Only this topic; may be repeated. The default is every topic of the platform
    #[arg(long, value_name = "TOPIC")]
    topic: Vec<String>,
    /// Start with the oldest message that the broker has
    #[arg(long)]
    from_start: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Events {
    pub async fn run(self) -> anyhow::Result<()> {
        let stack = Stack::running()?;
        let mut follower = Follower::open(&stack.brokers, self.topic, self.from_start)?;
        eprintln!(
            "{}",
            style(format!("following {} topics until Ctrl-C", follower.known.len())).dim().for_stderr()
        );
        let mut signals = crate::signals::Signals::listen()?;
        loop {
            let record = tokio::select! {
                record = follower.next() => record?,
                () = signals.stop() => return Ok(()),
            };
            let text = if self.json { serde_json::to_string(&record)? } else { record.to_text()? };
            match writeln!(std::io::stdout(), "{text}") {
                // The program that reads this output has ended.
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
                result => result?,
            }
        }
    }
}

/// One message of the bus.
#[derive(Debug, Serialize)]
pub struct Record {
    pub topic: String,
    partition: i32,
    offset: i64,
    time: Option<String>,
    pub key: String,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub sequence: Option<i64>,
    headers: BTreeMap<String, String>,
    /// JSON, or a text if the payload is not JSON.
    pub payload: Value,
}

impl Record {
    fn of(message: &BorrowedMessage<'_>) -> Self {
        let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        let headers: BTreeMap<_, _> = message
            .headers()
            .into_iter()
            .flat_map(|headers| headers.iter())
            .map(|header| (header.key.to_owned(), text(header.value)))
            .collect();
        let time = message.timestamp().to_millis().and_then(|millis| {
            OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000)
                .ok()?
                .format(&Rfc3339)
                .ok()
        });
        let payload = message.payload().map_or(Value::Null, |bytes| {
            serde_json::from_slice(bytes).unwrap_or_else(|_| Value::String(text(Some(bytes))))
        });
        Self {
            topic: message.topic().to_owned(),
            partition: message.partition(),
            offset: message.offset(),
            time,
            key: text(message.key()),
            kind: headers.get("ce_type").cloned(),
            sequence: headers.get("ce_sequence").and_then(|text| text.parse().ok()),
            headers,
            payload,
        }
    }

    fn to_text(&self) -> anyhow::Result<String> {
        let mut text = format!(
            "{} {}\n  key {}  type {}  sequence {}\n",
            style(self.time.as_deref().unwrap_or("-")).dim(),
            style(&self.topic).cyan().bold(),
            style(&self.key).bold(),
            self.kind.as_deref().unwrap_or("-"),
            self.sequence.map_or_else(|| "-".to_owned(), |sequence| sequence.to_string()),
        );
        for (name, value) in &self.headers {
            writeln!(text, "  {}", style(format!("{name}: {value}")).dim())?;
        }
        for line in serde_json::to_string_pretty(&self.payload)?.lines() {
            writeln!(text, "  {line}")?;
        }
        Ok(text)
    }
}

/// A consumer that assigns partitions to itself. The consumer joins no group, so it takes no
/// message from a service.
pub struct Follower {
    consumer: StreamConsumer,
    /// Reads metadata and offsets without disturbing the consumer.
    metadata_client: BaseConsumer,
    wanted: Vec<String>,
    known: BTreeSet<String>,
}

impl Follower {
    /// Follows these topics, or all topics of the platform, from their start or their end.
    pub fn open(brokers: &str, wanted: Vec<String>, from_start: bool) -> anyhow::Result<Self> {
        let mut config = ClientConfig::new();
        // librdkafka requires the name of a group, which this consumer never joins.
        config
            .set("bootstrap.servers", brokers)
            .set("group.id", "devstack")
            .set("enable.auto.commit", "false");
        config.set("fetch.wait.max.ms", "50");
        let (consumer, metadata_client) = (config.create()?, config.create()?);
        let mut follower = Self { consumer, metadata_client, wanted, known: BTreeSet::new() };
        follower.add_topics(from_start).with_context(|| format!("the broker at {brokers}"))?;
        Ok(follower)
    }

    pub async fn next(&mut self) -> anyhow::Result<Record> {
        loop {
            match tokio::time::timeout(TOPIC_REFRESH_INTERVAL, self.consumer.recv()).await {
                Ok(message) => return Ok(Record::of(&message?)),
                // A new topic is read from its start, since all its messages are new.
                Err(_) => self.add_topics(true)?,
            }
        }
    }

    /// Adds the topics that are not followed yet and resolves their offsets now.
    fn add_topics(&mut self, from_start: bool) -> anyhow::Result<()> {
        tokio::task::block_in_place(|| {
            let metadata = self.metadata_client.fetch_metadata(None, BROKER_TIMEOUT)?;
            let mut new = TopicPartitionList::new();
            for topic in metadata.topics() {
                let name = topic.name();
                let ours = if self.wanted.is_empty() {
                    name.starts_with("platform.") || name.starts_with("external.")
                } else {
                    self.wanted.iter().any(|wanted| wanted == name)
                };
                if !ours || topic.partitions().is_empty() || !self.known.insert(name.to_owned()) {
                    continue;
                }
                for partition in topic.partitions() {
                    let (first, end) =
                        self.metadata_client.fetch_watermarks(name, partition.id(), BROKER_TIMEOUT)?;
                    new.add_partition_offset(
                        name,
                        partition.id(),
                        Offset::Offset(if from_start { first } else { end }),
                    )?;
                }
            }
            if new.count() > 0 {
                self.consumer.incremental_assign(&new)?;
            }
            Ok(())
        })
    }
}
