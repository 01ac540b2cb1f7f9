//! The reader of the events that the broker delivers.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Headers;
use rdkafka::metadata::MetadataTopic;
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};

use super::{History, Stream};

/// Timeout of a request for the end of a partition.
const WATERMARK_TIMEOUT: Duration = Duration::from_secs(2);

/// A reader of the events that the broker delivers.
pub struct Log {
    consumer: Arc<BaseConsumer>,
    read: Arc<Mutex<Read>>,
}

#[derive(Default)]
struct Read {
    delivered: BTreeMap<Stream, Vec<i64>>,
    partitions: HashMap<Stream, i32>,
    /// The next offset of each topic and partition.
    next: HashMap<(String, i32), i64>,
    count: usize,
    /// The last error of the reader.
    failure: Option<KafkaError>,
}

impl Log {
    /// Starts a reader of `topics` from their beginning. Dropping the log stops the reader.
    ///
    /// # Errors
    /// If no broker responds.
    pub fn follow(brokers: &str, topics: &[String]) -> anyhow::Result<Self> {
        let consumer = crate::bus::read(ClientConfig::new().set("bootstrap.servers", brokers), topics)?;
        let log = Self { consumer: Arc::new(consumer), read: Arc::default() };
        let (consumer, read) = (Arc::clone(&log.consumer), Arc::downgrade(&log.read));
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            while let Some(read) = read.upgrade() {
                next(&consumer, &read);
            }
        })?;
        Ok(log)
    }

    fn state(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of read messages.
    pub fn count(&self) -> usize {
        self.state().count
    }

    /// Returns the partition of a stream, once one of its messages has been read.
    pub fn partition(&self, stream: &Stream) -> Option<i32> {
        self.state().partitions.get(stream).copied()
    }

    /// Returns a description of each partition with unread messages. Requests the ends from the
    /// broker.
    pub fn unread_partitions(&self) -> Vec<String> {
        let Ok(partitions) = self.consumer.assignment() else {
            return vec!["no partition is assigned".to_owned()];
        };
        let unread = partitions.elements().into_iter().filter_map(|partition| {
            let partition = (partition.topic().to_owned(), partition.partition());
            let next = self.state().next.get(&partition).copied().unwrap_or(0);
            let end = self
                .consumer
                .fetch_watermarks(&partition.0, partition.1, WATERMARK_TIMEOUT)
                .map(|(_, end)| end);
            let last = self.state().failure.clone();
            (end != Ok(next))
                .then(|| format!("{partition:?}: read to {next} of {end:?}, last failure {last:?}"))
        });
        unread.collect()
    }

    /// Also reads the partitions that a topic has had since the log was created.
    ///
    /// # Errors
    /// If no broker responds.
    pub fn follow_new_partitions(&self, topic: &str) -> anyhow::Result<()> {
        let metadata = self.consumer.fetch_metadata(Some(topic), WATERMARK_TIMEOUT)?;
        let known = self.consumer.assignment()?;
        let mut new = TopicPartitionList::new();
        for partition in metadata.topics().iter().flat_map(MetadataTopic::partitions) {
            if known.find_partition(topic, partition.id()).is_none() {
                new.add_partition_offset(topic, partition.id(), Offset::Beginning)?;
            }
        }
        Ok(self.consumer.incremental_assign(&new)?)
    }

    /// Adds the delivered events to `history`.
    pub fn read(&self, history: &mut History) {
        let read = self.state();
        for (stream, sequences) in &read.delivered {
            history.delivered.entry(stream.clone()).or_default().extend(sequences);
        }
    }
}

fn next(consumer: &BaseConsumer, read: &Mutex<Read>) {
    let message = match consumer.poll(Duration::from_millis(100)) {
        Some(Ok(message)) => message,
        Some(Err(error)) => {
            read.lock().unwrap_or_else(PoisonError::into_inner).failure = Some(error);
            return;
        }
        None => return,
    };
    let sequence = message.headers().into_iter().flat_map(Headers::iter).find_map(|header| {
        let value = header.value.filter(|_| header.key == "ce_sequence")?;
        std::str::from_utf8(value).ok()?.parse().ok()
    });
    let key = String::from_utf8_lossy(message.key().unwrap_or_default()).into_owned();
    let stream = (message.topic().to_owned(), key);
    let mut read = read.lock().unwrap_or_else(PoisonError::into_inner);
    read.count += 1;
    read.next.insert((stream.0.clone(), message.partition()), message.offset() + 1);
    read.partitions.insert(stream.clone(), message.partition());
    // A message without a sequence counts as -1. No event has it, so the verdict reports an
    // uncommitted one.
    read.delivered.entry(stream).or_default().push(sequence.unwrap_or(-1));
}
