//! The bus as a test sees it: every published message by key, and a producer.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Header, Headers, OwnedHeaders};
use rdkafka::metadata::{MetadataPartition, MetadataTopic};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use serde_json::Value;
use service::Service;
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

pub use crate::published::{Published, payloads};
use crate::{TIMEOUT, contract};

/// The assumed maximum delay between partitions, which are fetched separately. After this delay,
/// the events of a key have arrived on all topics.
const PARTITION_SKEW: Duration = Duration::from_millis(200);

/// The next offset of each partition.
type Offsets = HashMap<(String, i32), i64>;

/// All messages that the reader has received.
#[derive(Default)]
struct Received {
    by_key: HashMap<String, Vec<Published>>,
    next: Offsets,
}

/// A reader of topics and a producer.
pub struct Bus {
    topics: Vec<String>,
    received: Arc<Mutex<Received>>,
    arrived: watch::Receiver<u64>,
    producer: FutureProducer,
}

impl Bus {
    /// Returns the bus of the brokers in `KAFKA_BROKERS` that reads these topics. Services with
    /// the same topics share one.
    ///
    /// # Panics
    /// If the brokers cannot be reached.
    pub fn shared(topics: &[String]) -> &'static Self {
        static BUSES: Mutex<BTreeMap<Vec<String>, &Bus>> = Mutex::new(BTreeMap::new());
        let connect = || Self::connect(&crate::required("KAFKA_BROKERS")?, topics);
        let mut buses = BUSES.lock().unwrap_or_else(PoisonError::into_inner);
        buses.entry(topics.to_owned()).or_insert_with(|| Box::leak(Box::new(connect().expect("the bus"))))
    }

    /// Connects to brokers and starts a reader of `topics` on its own thread.
    ///
    /// # Errors
    /// If no broker responds.
    ///
    /// # Panics
    /// Never in the caller: only the reader's thread panics, if its mutex is poisoned.
    pub fn connect(brokers: &str, topics: &[String]) -> anyhow::Result<Self> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers);
        let producer = config.create()?;
        let consumer = read(&mut config, topics)?;
        let (arrivals, arrived) = watch::channel(0);
        let received = Arc::new(Mutex::new(Received::default()));
        let writer = Arc::clone(&received);
        std::thread::Builder::new().name("bus".to_owned()).spawn(move || {
            loop {
                let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else { continue };
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let headers = message.headers().into_iter().flat_map(Headers::iter);
                let published = Published {
                    topic: message.topic().to_owned(),
                    headers: headers
                        .map(|header| (header.key.to_owned(), text(header.value.unwrap_or_default())))
                        .collect(),
                    payload: serde_json::from_slice(message.payload().unwrap_or_default())
                        .unwrap_or(Value::Null),
                };
                let key = text(message.key().unwrap_or_default());
                let mut received = writer.lock().expect("no test panics here");
                received.next.insert((message.topic().to_owned(), message.partition()), message.offset() + 1);
                received.by_key.entry(key).or_default().push(published);
                drop(received);
                arrivals.send_modify(|count| *count += 1);
            }
        })?;
        Ok(Self { topics: topics.to_owned(), received, arrived, producer })
    }

    /// Waits until the reader has received every message that is in the broker at the call.
    ///
    /// # Panics
    /// If the broker does not respond, or the messages do not arrive.
    pub async fn read_to_end(&self) {
        let (producer, topics) = (self.producer.clone(), self.topics.clone());
        let ends = tokio::task::spawn_blocking(move || ends(&producer, &topics)).await;
        let ends = ends.expect("reading offsets does not panic").expect("the broker returns its offsets");
        let mut arrived = self.arrived.clone();
        let wait = async {
            while !self.has_received(&ends) {
                arrived.changed().await.expect("the bus lives as long as the tests");
            }
        };
        assert!(
            tokio::time::timeout(*TIMEOUT, wait).await.is_ok(),
            "messages before {ends:?} did not arrive"
        );
    }

    fn has_received(&self, ends: &Offsets) -> bool {
        let received = self.received.lock().expect("no test panics here");
        ends.iter().all(|(partition, end)| received.next.get(partition).is_some_and(|next| next >= end))
    }

    /// Waits for an event of `key` on the topic `last`, and returns all events of the key in the
    /// order of [`Bus::events`].
    ///
    /// # Panics
    /// If the event does not arrive.
    pub async fn events_until(&self, key: impl ToString, last: &str) -> Vec<Published> {
        let key = key.to_string();
        let of_key = || self.events(&key);
        let mut arrived = self.arrived.clone();
        let wait = async {
            while !of_key().iter().any(|event| event.topic == last) {
                arrived.changed().await.expect("the bus lives as long as the tests");
            }
        };
        assert!(
            tokio::time::timeout(*TIMEOUT, wait).await.is_ok(),
            "no {last} of {key}; only {:?}",
            of_key()
        );
        tokio::time::sleep(PARTITION_SKEW).await;
        of_key()
    }

    /// Returns all events published under `key` so far, in the order of arrival and without
    /// redeliveries.
    ///
    /// Kafka orders the events of a key within a topic, not between topics. A test that compares
    /// events of several topics sorts them by [`Published::sequence`].
    ///
    /// # Panics
    /// If an event differs from its document, or arrives out of order within its topic.
    pub fn events(&self, key: &(impl ToString + ?Sized)) -> Vec<Published> {
        let received = self.received.lock().expect("no test panics here");
        let mut events = received.by_key.get(&key.to_string()).cloned().unwrap_or_default();
        drop(received);
        // At-least-once delivery may repeat an event. A dead letter has the id of its original, so
        // events are equal only within one topic.
        let mut ids = HashSet::new();
        events.retain(|event| {
            ids.insert((event.topic.clone(), event.headers.get("ce_id").cloned(), event.sequence()))
        });
        let mut last = HashMap::new();
        for event in &events {
            let Some(contract) = contract::of(&event.topic) else { continue };
            if let Err(error) = contract.check_event(event) {
                panic!("a message of {} differs from its document: {error:#}: {event:?}", event.topic);
            }
            assert_eq!(
                event.headers.get("ce_subject"),
                Some(&key.to_string()),
                "the subject is not the key: {event:?}"
            );
            let before = last.insert(&event.topic, event.sequence());
            assert!(
                before < Some(event.sequence()),
                "an event arrived out of order: {event:?} after {before:?}"
            );
        }
        events
    }

    /// Publishes an event as another service would: CloudEvents in binary mode.
    ///
    /// # Panics
    /// If the broker rejects the message.
    pub async fn publish(&self, topic: &str, key: Uuid, sequence: i64, payload: &Value) {
        let headers = [
            ("ce_specversion", "1.0".to_owned()),
            ("ce_id", Uuid::from_u128(rand::random()).to_string()),
            ("ce_type", topic.to_owned()),
            ("ce_source", "/test".to_owned()),
            ("ce_subject", key.to_string()),
            ("ce_sequence", sequence.to_string()),
            ("contractversion", "1".to_owned()),
        ];
        self.publish_raw(topic, key.to_string().as_bytes(), &headers, payload.to_string().as_bytes()).await;
    }

    /// Publishes a tombstone as another service would.
    ///
    /// # Panics
    /// If the broker rejects the message.
    pub async fn publish_tombstone(&self, topic: &str, key: Uuid, sequence: i64) {
        let (key, sequence) = (key.to_string(), sequence.to_string());
        let header = Header { key: "ce_sequence", value: Some(&sequence) };
        let record = FutureRecord::<str, [u8]>::to(topic).key(&*key);
        let record = record.headers(OwnedHeaders::new().insert(header));
        self.producer.send(record, *TIMEOUT).await.expect("the broker accepts the message");
    }

    /// Publishes a message with any headers and any bytes.
    ///
    /// # Panics
    /// If the broker rejects the message.
    pub async fn publish_raw(&self, topic: &str, key: &[u8], headers: &[(&str, String)], payload: &[u8]) {
        let headers = headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
            headers.insert(Header { key, value: Some(value) })
        });
        let record = FutureRecord::to(topic).key(key).payload(payload).headers(headers);
        self.producer.send(record, *TIMEOUT).await.expect("the broker accepts the message");
    }
}

/// Commits the ends of all topics for the consumer groups of a service with this `suffix`.
///
/// The service then consumes only messages that are published from now on, since other tests have
/// already published to its topics.
///
/// # Errors
/// If the brokers do not respond.
///
/// # Panics
/// Never: the blocking part does not panic.
pub async fn skip_to_end<S: Service>(suffix: &str) -> anyhow::Result<()> {
    let (brokers, suffix) = (crate::required("KAFKA_BROKERS")?, suffix.to_owned());
    let commit = move || {
        S::CONSUMERS
            .iter()
            .try_for_each(|consumer| commit_ends(&brokers, consumer.topics, consumer.group, &suffix))
    };
    let deadline = Instant::now() + *TIMEOUT;
    loop {
        let committed = tokio::task::spawn_blocking(commit.clone()).await.expect("committing does not panic");
        // Brokers need a moment to learn the leaders of a new topic's partitions.
        if committed.is_ok() || Instant::now() > deadline {
            return committed;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn commit_ends(brokers: &str, topics: &[&str], group: &str, suffix: &str) -> anyhow::Result<()> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", format!("{group}{suffix}"));
    let consumer: BaseConsumer = config.create()?;
    let mut ends = TopicPartitionList::new();
    for topic in topics {
        for partition in partitions(&consumer, topic)? {
            let (_, end) = consumer.fetch_watermarks(topic, partition, *TIMEOUT)?;
            ends.add_partition_offset(topic, partition, Offset::Offset(end))?;
        }
    }
    Ok(consumer.commit(&ends, CommitMode::Sync)?)
}

/// Returns the end of each partition that is not empty.
fn ends(producer: &FutureProducer, topics: &[String]) -> anyhow::Result<Offsets> {
    let client = producer.client();
    let mut ends = Offsets::new();
    for topic in topics {
        let metadata = client.fetch_metadata(Some(topic), *TIMEOUT)?;
        for partition in metadata.topics().iter().flat_map(MetadataTopic::partitions) {
            let (start, end) = client.fetch_watermarks(topic, partition.id(), *TIMEOUT)?;
            if end > start {
                ends.insert((topic.clone(), partition.id()), end);
            }
        }
    }
    Ok(ends)
}

fn partitions(consumer: &BaseConsumer, topic: &str) -> anyhow::Result<Vec<i32>> {
    let metadata = consumer.fetch_metadata(Some(topic), *TIMEOUT).context("no broker responded")?;
    let topics = metadata.topics().iter();
    Ok(topics.flat_map(MetadataTopic::partitions).map(MetadataPartition::id).collect())
}

/// Creates a consumer that reads `topics` from their beginning and joins no group.
pub(crate) fn read(config: &mut ClientConfig, topics: &[String]) -> anyhow::Result<BaseConsumer> {
    let consumer: BaseConsumer = config
        // librdkafka needs the setting, even if the consumer assigns its partitions itself.
        .set("group.id", "testkit")
        .set("enable.auto.commit", "false")
        .set("fetch.wait.max.ms", "20")
        .create()?;
    let mut partitions = TopicPartitionList::new();
    for topic in topics {
        for partition in self::partitions(&consumer, topic)? {
            partitions.add_partition_offset(topic, partition, Offset::Beginning)?;
        }
    }
    consumer.assign(&partitions)?;
    Ok(consumer)
}
