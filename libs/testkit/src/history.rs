//! Records the history of events and checks the delivery guarantees.
//!
//! A [`Recorder`] records the appended and received events in the database of a service, a [`Log`]
//! the events that the broker delivered. The [`Verdict`] lists the violations of the delivery
//! guarantees.

mod lease;
mod log;

use std::collections::{BTreeMap, BTreeSet};

pub use self::lease::NextLease;
pub use self::log::Log;

/// A topic and a key. Events are ordered within a stream.
pub type Stream = (String, String);

/// The history of a test run, of one service or several.
#[derive(Debug, Default)]
pub struct History {
    /// Committed sequences, from the database.
    pub committed: BTreeMap<Stream, BTreeSet<i64>>,
    /// Delivered sequences in the order of the log.
    pub delivered: BTreeMap<Stream, Vec<i64>>,
    /// Received sequences of each consumer, in the order of its transactions.
    pub received: BTreeMap<String, BTreeMap<Stream, Vec<i64>>>,
    /// Events that a database has lost after their commit.
    pub lost: Vec<LostEvents>,
}

/// The events that the database of a service has lost after their commit, because a standby without
/// them was promoted or a backup was restored. The broker may have delivered them.
#[derive(Clone, Debug)]
pub struct LostEvents {
    /// The topics of the service.
    pub topics: BTreeSet<String>,
    /// The last sequence of each stream that the database has kept. Transactions of different
    /// streams do not commit in the order of their sequences.
    pub kept: BTreeMap<Stream, i64>,
    /// A sequence above all lost ones and below all later ones. After a loss, a service numbers its
    /// events from the clock's microseconds, so the time of the loss separates them.
    pub before: i64,
}

impl LostEvents {
    fn contains(&self, stream: &Stream, sequence: i64) -> bool {
        let is_after_kept = self.kept.get(stream).is_none_or(|kept| *kept < sequence);
        self.topics.contains(&stream.0) && is_after_kept && sequence < self.before
    }
}

/// A violation of the delivery guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Committed and not delivered.
    Lost,
    /// Delivered and not committed.
    Uncommitted,
    /// Delivered for the first time after a later event.
    DeliveredOutOfOrder,
    /// Delivered again after a later event that was not repeated. Only a stale relay repeats an
    /// event without the later ones.
    Stale,
    /// Committed, but not received by a consumer of the topic.
    Skipped,
    /// Received twice, or after a later event.
    ReceivedOutOfOrder,
}

/// The result of checking a history.
#[derive(Debug, Default)]
pub struct Verdict {
    pub committed: usize,
    pub delivered: usize,
    /// Deliveries of an event after its first one. At-least-once delivery permits them.
    pub repeated: usize,
    /// Deliveries of events that a database has lost after their commit.
    pub undone: usize,
    /// Number of skipped events of each consumer.
    pub skipped_by_consumer: BTreeMap<String, usize>,
    pub faults: Vec<(Fault, Stream, i64)>,
}

impl Verdict {
    /// Returns the number of faults of a kind.
    pub fn count(&self, kind: Fault) -> usize {
        self.faults.iter().filter(|(fault, ..)| *fault == kind).count()
    }

    fn add(&mut self, fault: Fault, stream: &Stream, sequences: impl IntoIterator<Item = i64>) {
        self.faults.extend(sequences.into_iter().map(|sequence| (fault, stream.clone(), sequence)));
    }
}

impl History {
    /// Checks the history.
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
            let (undone, uncommitted): (Vec<i64>, Vec<i64>) = distinct
                .difference(committed)
                .partition(|sequence| self.lost.iter().any(|lost| lost.contains(stream, **sequence)));
            verdict.undone += undone.len();
            verdict.add(Fault::Uncommitted, stream, uncommitted);
            let (out_of_order, stale) = disorder(delivered);
            verdict.add(Fault::DeliveredOutOfOrder, stream, out_of_order);
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
                verdict.add(Fault::ReceivedOutOfOrder, stream, backward);
            }
            let skipped = verdict.count(Fault::Skipped) - skipped_before;
            if skipped > 0 {
                verdict.skipped_by_consumer.insert(consumer.clone(), skipped);
            }
        }
        verdict
    }
}

/// Returns the sequences of a stream that were delivered out of order, and the stale ones.
///
/// A relay that takes over begins with the oldest pending event, so after a step back it repeats
/// all later events in order. A stale relay stops before it has repeated all of them.
fn disorder(delivered: &[i64]) -> (Vec<i64>, Vec<i64>) {
    let (mut out_of_order, mut stale) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    let mut last = i64::MIN;
    for &sequence in delivered {
        // A repetition that leaves out an event between `last` and `sequence` is stale.
        let seen_after = seen.range((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded));
        if sequence > last && seen_after.take_while(|other| **other < sequence).next().is_some() {
            stale.push(last);
        }
        if seen.last().is_some_and(|highest| sequence < *highest) && !seen.contains(&sequence) {
            out_of_order.push(sequence);
        }
        seen.insert(sequence);
        last = sequence;
    }
    if seen.last().is_some_and(|highest| last < *highest) {
        stale.push(last);
    }
    (out_of_order, stale)
}

/// Triggers in a service's schema that record its appended and received events in its transactions.
pub struct Recorder {
    url: String,
    schema: String,
}

impl Recorder {
    /// Installs the triggers in `schema` of the migrated database at `url`.
    ///
    /// # Errors
    /// If the database cannot be reached, or rejects a statement.
    pub async fn install(url: &str, schema: &str) -> anyhow::Result<Self> {
        let client = crate::database::connect(url).await?;
        let tables = include_str!("history.sql").replace("{schema}", schema);
        client.batch_execute(&tables).await?;
        Ok(Self { url: url.to_owned(), schema: schema.to_owned() })
    }

    /// Returns the highest committed sequence of each stream of the service in a copy of its
    /// database.
    ///
    /// # Errors
    /// If the copy cannot be reached.
    pub async fn last_committed(&self, url: &str) -> anyhow::Result<BTreeMap<Stream, i64>> {
        let last = format!(
            "select topic, key, max(sequence) from {}.history_appended group by topic, key",
            self.schema
        );
        let rows = crate::database::connect(url).await?.query(&last, &[]).await?;
        Ok(rows.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect())
    }

    /// Adds the recorded events to `history`.
    ///
    /// # Errors
    /// If the database cannot be reached.
    pub async fn read(&self, history: &mut History) -> anyhow::Result<()> {
        let Self { url, schema } = self;
        // A new connection, since a fault of the database may have closed the old ones.
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

#[cfg(test)]
mod tests {
    use super::{Fault, History, LostEvents, Stream, Verdict};

    fn stream() -> Stream {
        ("topic".to_owned(), "key".to_owned())
    }

    /// Checks the history of one stream with one consumer.
    fn check(committed: &[i64], delivered: &[i64], received: &[i64]) -> Verdict {
        let mut history = History::default();
        history.committed.insert(stream(), committed.iter().copied().collect());
        history.delivered.insert(stream(), delivered.to_vec());
        history.received.entry("consumer".to_owned()).or_default().insert(stream(), received.to_vec());
        history.verdict()
    }

    fn faults(committed: &[i64], delivered: &[i64], received: &[i64]) -> Vec<(Fault, i64)> {
        let verdict = check(committed, delivered, received);
        verdict.faults.into_iter().map(|(fault, _, sequence)| (fault, sequence)).collect()
    }

    #[test]
    fn ordered_stream_with_gaps_has_no_faults() {
        assert!(faults(&[1, 4, 9], &[1, 4, 9], &[1, 4, 9]).is_empty());
    }

    #[test]
    fn repeated_batch_is_counted_and_no_fault() {
        let verdict = check(&[1, 2, 3, 4], &[1, 2, 3, 1, 2, 1, 2, 3, 4], &[1, 2, 3, 4]);
        assert!(verdict.faults.is_empty(), "{verdict:?}");
        assert_eq!((verdict.committed, verdict.delivered, verdict.repeated), (4, 9, 5));
    }

    #[test]
    fn duplicates_of_concurrent_relays_are_no_fault() {
        assert!(faults(&[1, 2, 3], &[1, 1, 2, 2, 3, 3], &[1, 2, 3]).is_empty());
    }

    /// RULE-EVT-028: an event that was not delivered is detected.
    #[test]
    fn undelivered_event_is_lost() {
        assert_eq!(faults(&[1, 2, 3], &[1, 3], &[1, 2, 3]), [(Fault::Lost, 2)]);
    }

    /// RULE-EVT-028: an event that was not committed is detected.
    #[test]
    fn uncommitted_event_is_detected() {
        assert_eq!(faults(&[1, 3], &[1, 2, 3], &[1, 3]), [(Fault::Uncommitted, 2)]);
    }

    /// RULE-EVT-028: the loss of a database excuses only the events of a stream after the last one
    /// that it has kept.
    #[test]
    fn event_that_the_database_lost_is_no_fault() {
        let mut history = History::default();
        history.committed.insert(stream(), [1, 2, 50].into());
        history.delivered.insert(stream(), vec![1, 2, 3, 4, 50, 51]);
        let kept = [(stream(), 2)].into();
        history.lost.push(LostEvents { topics: [stream().0].into(), kept, before: 50 });
        let verdict = history.verdict();
        assert_eq!(verdict.undone, 2);
        assert_eq!(verdict.faults, [(Fault::Uncommitted, stream(), 51)]);
    }

    /// RULE-EVT-028: a second loss excuses neither the events that it has kept nor those between
    /// the losses, and the first loss excuses no event that was numbered after it.
    #[test]
    fn event_between_two_losses_is_excused_by_neither() {
        let other = ("topic".to_owned(), "other".to_owned());
        let mut history = History::default();
        history.committed.insert(stream(), [1, 2, 50, 52, 90].into());
        history.delivered.insert(stream(), vec![1, 2, 3, 50, 51, 52, 53, 90, 91]);
        // The first loss took all events of the key, and the second one those after it.
        history.delivered.insert(other.clone(), vec![4, 54]);
        let mut lose = |kept: &[(Stream, i64)], before| {
            let kept = kept.iter().cloned().collect();
            history.lost.push(LostEvents { topics: [stream().0].into(), kept, before });
        };
        lose(&[(stream(), 2)], 50);
        lose(&[(stream(), 52)], 90);
        let verdict = history.verdict();
        assert_eq!(verdict.undone, 4);
        assert_eq!(verdict.faults, [(Fault::Uncommitted, stream(), 51), (Fault::Uncommitted, stream(), 91)]);
    }

    /// RULE-EVT-028: the first delivery of an event after a later event is detected.
    #[test]
    fn first_delivery_after_a_later_event_is_out_of_order() {
        assert_eq!(faults(&[1, 2, 3], &[1, 3, 2, 3], &[1, 2, 3]), [(Fault::DeliveredOutOfOrder, 2)]);
    }

    /// RULE-EVT-028: a stale event is detected.
    #[test]
    fn incomplete_repetition_is_stale() {
        assert_eq!(faults(&[1, 2, 3, 4, 5], &[1, 2, 3, 4, 1, 2, 5], &[1, 2, 3, 4, 5]), [(Fault::Stale, 2)]);
        assert_eq!(faults(&[1, 2, 3, 4], &[1, 2, 3, 4, 1, 2], &[1, 2, 3, 4]), [(Fault::Stale, 2)]);
    }

    /// RULE-EVT-028: a skipped event is detected.
    #[test]
    fn event_without_a_receipt_is_skipped() {
        assert_eq!(faults(&[1, 2, 3], &[1, 2, 3], &[1, 3]), [(Fault::Skipped, 2)]);
        let skipped = check(&[1, 2, 3], &[1, 2, 3], &[1]).skipped_by_consumer;
        assert_eq!(skipped.into_iter().collect::<Vec<_>>(), [("consumer".to_owned(), 2)]);
    }

    /// RULE-EVT-028: an event that was applied out of order or twice is detected.
    #[test]
    fn late_or_repeated_receipt_is_out_of_order() {
        assert_eq!(faults(&[1, 2], &[1, 2], &[2, 1]), [(Fault::ReceivedOutOfOrder, 1)]);
        assert_eq!(faults(&[1, 2], &[1, 2], &[1, 1, 2]), [(Fault::ReceivedOutOfOrder, 1)]);
    }
}
