//! What happened to events, and whether it was what is promised: a [`Recorder`] in the database of a
//! service, a [`Log`] of what the broker delivered, and the [`Verdict`] on both.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Headers;
use rdkafka::{ClientConfig, Message};

/// How long the broker may take to say how long its log is.
const PATIENCE: Duration = Duration::from_secs(2);

/// A topic and a key: order is promised within.
pub type Stream = (String, String);

/// What is known of a run, of one service or several.
#[derive(Debug, Default)]
pub struct History {
    /// The sequences that were committed, from the database.
    pub committed: BTreeMap<Stream, BTreeSet<i64>>,
    /// The sequences that were delivered, in the order of the log.
    pub delivered: BTreeMap<Stream, Vec<i64>>,
    /// The sequences that each consumer has a receipt for, in the order of their transactions.
    pub received: BTreeMap<String, BTreeMap<Stream, Vec<i64>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Committed and not delivered.
    Lost,
    /// Delivered and not committed.
    Ghost,
    /// Delivered for the first time after a later one.
    Overtaken,
    /// Repeated after a later one, which was not repeated after it: what a stale relay sends.
    Stale,
    /// Committed and never received by a consumer of its topic.
    Skipped,
    /// Received after a later one, or again.
    Misapplied,
}

/// What a history comes to.
#[derive(Debug, Default)]
pub struct Verdict {
    pub committed: usize,
    pub delivered: usize,
    /// Deliveries beyond the first of an event. They are allowed.
    pub repeated: usize,
    /// How many of the skipped each consumer lacks.
    pub behind: BTreeMap<String, usize>,
    pub faults: Vec<(Fault, Stream, i64)>,
}

impl Verdict {
    pub fn count(&self, kind: Fault) -> usize {
        self.faults.iter().filter(|(of, ..)| *of == kind).count()
    }

    fn add(&mut self, fault: Fault, stream: &Stream, sequences: impl IntoIterator<Item = i64>) {
        self.faults.extend(sequences.into_iter().map(|sequence| (fault, stream.clone(), sequence)));
    }
}

impl History {
    pub fn verdict(&self) -> Verdict {
        let mut verdict = Verdict::default();
        let none = (BTreeSet::new(), Vec::new());
        let streams: BTreeSet<&Stream> = self.committed.keys().chain(self.delivered.keys()).collect();
        for stream in streams {
            let committed = self.committed.get(stream).unwrap_or(&none.0);
            let delivered = self.delivered.get(stream).unwrap_or(&none.1);
            let distinct: BTreeSet<i64> = delivered.iter().copied().collect();
            verdict.committed += committed.len();
            verdict.delivered += delivered.len();
            verdict.repeated += delivered.len() - distinct.len();
            verdict.add(Fault::Lost, stream, committed.difference(&distinct).copied());
            verdict.add(Fault::Ghost, stream, distinct.difference(committed).copied());
            let (overtaken, stale) = disorder(delivered);
            verdict.add(Fault::Overtaken, stream, overtaken);
            verdict.add(Fault::Stale, stream, stale);
        }
        for (consumer, streams) in &self.received {
            let skipped_before = verdict.count(Fault::Skipped);
            let topics: BTreeSet<&str> = streams.keys().map(|(topic, _)| topic.as_str()).collect();
            for (stream, committed) in &self.committed {
                let received = streams.get(stream).unwrap_or(&none.1);
                if topics.contains(stream.0.as_str()) {
                    let distinct = received.iter().copied().collect();
                    verdict.add(Fault::Skipped, stream, committed.difference(&distinct).copied());
                }
                let backward = received.windows(2).filter(|pair| pair[1] <= pair[0]).map(|pair| pair[1]);
                verdict.add(Fault::Misapplied, stream, backward);
            }
            let skipped = verdict.count(Fault::Skipped) - skipped_before;
            if skipped > 0 {
                verdict.behind.insert(consumer.clone(), skipped);
            }
        }
        verdict
    }
}

/// First deliveries that came late, and repeats that were not taken up to where the log had been.
///
/// A relay that takes over begins with the oldest pending event and goes on from there, so after a
/// step back in the log all that follows is repeated in order. A stale relay stops short of that.
fn disorder(delivered: &[i64]) -> (Vec<i64>, Vec<i64>) {
    let (mut overtaken, mut stale) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    let mut last = i64::MIN;
    for &sequence in delivered {
        let caught_up = seen.range((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded));
        if sequence > last && caught_up.take_while(|skipped| **skipped < sequence).next().is_some() {
            stale.push(last);
        }
        if seen.last().is_some_and(|highest| sequence < *highest) && !seen.contains(&sequence) {
            overtaken.push(sequence);
        }
        seen.insert(sequence);
        last = sequence;
    }
    if seen.last().is_some_and(|highest| last < *highest) {
        stale.push(last);
    }
    (overtaken, stale)
}

/// Writes down in a service's schema, within its own transactions, what it appends and receives.
pub struct Recorder {
    url: String,
    schema: String,
}

impl Recorder {
    /// Installs itself in `schema` of the database at `url`, which has been migrated.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn install(url: &str, schema: &str) -> anyhow::Result<Self> {
        let client = crate::database::connect(url).await?;
        let tables = include_str!("history.sql").replace("{schema}", schema);
        client.batch_execute(&tables).await?;
        Ok(Self { url: url.to_owned(), schema: schema.to_owned() })
    }

    /// Adds what was recorded to `history`.
    ///
    /// # Errors
    /// When the database is away.
    pub async fn read(&self, history: &mut History) -> anyhow::Result<()> {
        let Self { url, schema } = self;
        // A new connection: whatever has happened to the database meanwhile has ended the old ones.
        let client = crate::database::connect(url).await?;
        let appended = format!("select topic, key, sequence from {schema}.history_appended");
        for row in client.query(&appended, &[]).await? {
            history.committed.entry((row.get(0), row.get(1))).or_default().insert(row.get(2));
        }
        let received =
            format!("select consumer, topic, key, sequence from {schema}.history_received order by id");
        for row in client.query(&received, &[]).await? {
            let streams = history.received.entry(row.get(0)).or_default();
            streams.entry((row.get(1), row.get(2))).or_default().push(row.get(3));
        }
        Ok(())
    }
}

/// What the broker delivers, read as it comes.
pub struct Log {
    consumer: Arc<BaseConsumer>,
    read: Arc<Mutex<Read>>,
}

#[derive(Default)]
struct Read {
    delivered: BTreeMap<Stream, Vec<i64>>,
    partitions: HashMap<Stream, i32>,
    /// The offset that comes next, of each topic and partition.
    next: HashMap<(String, i32), i64>,
    count: usize,
    /// What reading failed with last.
    failure: Option<KafkaError>,
}

impl Log {
    /// Reads `topics` of the broker from their beginning, until dropped.
    ///
    /// # Errors
    /// When no broker answers.
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

    fn so_far(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many messages have come.
    pub fn count(&self) -> usize {
        self.so_far().count
    }

    /// Where the messages of a stream are.
    pub fn partition(&self, stream: &Stream) -> Option<i32> {
        self.so_far().partitions.get(stream).copied()
    }

    /// The partitions of which the broker has more now than has been read, as it says; each with how far that is. Asks it.
    pub fn behind(&self) -> Vec<String> {
        let Ok(partitions) = self.consumer.assignment() else { return vec!["nothing is read".to_owned()] };
        let behind = partitions.elements().into_iter().filter_map(|partition| {
            let at = (partition.topic().to_owned(), partition.partition());
            let next = self.so_far().next.get(&at).copied().unwrap_or(0);
            let end = self.consumer.fetch_watermarks(&at.0, at.1, PATIENCE).map(|(_, end)| end);
            let last = self.so_far().failure.clone();
            (end != Ok(next)).then(|| format!("{at:?}: read to {next} of {end:?}, last failure {last:?}"))
        });
        behind.collect()
    }

    /// Adds what was delivered to `history`.
    pub fn read(&self, history: &mut History) {
        let read = self.so_far();
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
    // No event has this one, so it will be found to be nobody's.
    read.delivered.entry(stream).or_default().push(sequence.unwrap_or(-1));
}

#[cfg(test)]
mod tests {
    use super::{Fault, History, Stream, Verdict};

    fn stream() -> Stream {
        ("topic".to_owned(), "key".to_owned())
    }

    /// The verdict on one stream, received by one consumer.
    fn judge(committed: &[i64], delivered: &[i64], received: &[i64]) -> Verdict {
        let mut history = History::default();
        history.committed.insert(stream(), committed.iter().copied().collect());
        history.delivered.insert(stream(), delivered.to_vec());
        history.received.entry("consumer".to_owned()).or_default().insert(stream(), received.to_vec());
        history.verdict()
    }

    fn faults(committed: &[i64], delivered: &[i64], received: &[i64]) -> Vec<(Fault, i64)> {
        let verdict = judge(committed, delivered, received);
        verdict.faults.into_iter().map(|(fault, _, sequence)| (fault, sequence)).collect()
    }

    #[test]
    fn events_in_order_and_gaps_of_other_keys_are_fine() {
        assert!(faults(&[1, 4, 9], &[1, 4, 9], &[1, 4, 9]).is_empty());
    }

    #[test]
    fn a_batch_that_is_sent_again_is_fine_and_counted() {
        let verdict = judge(&[1, 2, 3, 4], &[1, 2, 3, 1, 2, 1, 2, 3, 4], &[1, 2, 3, 4]);
        assert!(verdict.faults.is_empty(), "{verdict:?}");
        assert_eq!((verdict.committed, verdict.delivered, verdict.repeated), (4, 9, 5));
    }

    #[test]
    fn two_relays_that_send_the_same_side_by_side_are_fine() {
        assert!(faults(&[1, 2, 3], &[1, 1, 2, 2, 3, 3], &[1, 2, 3]).is_empty());
    }

    #[test]
    fn an_event_that_was_not_delivered_is_lost() {
        assert_eq!(faults(&[1, 2, 3], &[1, 3], &[1, 2, 3]), [(Fault::Lost, 2)]);
    }

    #[test]
    fn an_event_that_was_not_committed_is_a_ghost() {
        assert_eq!(faults(&[1, 3], &[1, 2, 3], &[1, 3]), [(Fault::Ghost, 2)]);
    }

    #[test]
    fn a_first_delivery_after_a_later_one_is_overtaken() {
        assert_eq!(faults(&[1, 2, 3], &[1, 3, 2, 3], &[1, 2, 3]), [(Fault::Overtaken, 2)]);
    }

    #[test]
    fn a_stale_relay_stops_short_of_where_the_log_had_been() {
        assert_eq!(faults(&[1, 2, 3, 4, 5], &[1, 2, 3, 4, 1, 2, 5], &[1, 2, 3, 4, 5]), [(Fault::Stale, 2)]);
        assert_eq!(faults(&[1, 2, 3, 4], &[1, 2, 3, 4, 1, 2], &[1, 2, 3, 4]), [(Fault::Stale, 2)]);
    }

    #[test]
    fn an_event_without_a_receipt_was_skipped() {
        assert_eq!(faults(&[1, 2, 3], &[1, 2, 3], &[1, 3]), [(Fault::Skipped, 2)]);
        let behind = judge(&[1, 2, 3], &[1, 2, 3], &[1]).behind;
        assert_eq!(behind.into_iter().collect::<Vec<_>>(), [("consumer".to_owned(), 2)]);
    }

    #[test]
    fn a_receipt_after_a_later_one_or_again_is_misapplied() {
        assert_eq!(faults(&[1, 2], &[1, 2], &[2, 1]), [(Fault::Misapplied, 1)]);
        assert_eq!(faults(&[1, 2], &[1, 2], &[1, 1, 2]), [(Fault::Misapplied, 1)]);
    }
}
