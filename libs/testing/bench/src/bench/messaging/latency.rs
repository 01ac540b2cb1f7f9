//! The latency from the commit of an event to its arrival at a reader, against the bare producer at
//! the same pace.
//!
//! The reader receives a message when the relay receives its acknowledgement, or later. The
//! measured time is therefore an upper bound of the time to the acknowledgement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::future::try_join_all;
use rdkafka::consumer::{BaseConsumer, Consumer, StreamConsumer};
use rdkafka::producer::FutureProducer;
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use serde::Deserialize;
use tokio::time::{sleep_until, timeout};

use super::events::{Measured, PreparedMessage};
use super::{Bench, RELAYED};
use crate::bench::Effort;
use crate::bench::environment::stop;
use crate::bench::report::{Goal, Rounds, Row, Unit, percentile};
use devkit::progress::Step;

/// Concurrent transactions.
const WRITERS: usize = 8;
const ARRIVAL_TIMEOUT: Duration = Duration::from_mins(1);

/// The interval and the number of events.
#[derive(Clone, Copy)]
struct Pace {
    name: &'static str,
    every: Duration,
    events: usize,
}

/// The time of each event's commit or send, in nanoseconds since `begun`.
struct Clock {
    begun: Instant,
    marks: Vec<AtomicU64>,
}

impl Clock {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn mark(&self, number: usize) {
        self.marks[number].store(self.now(), Ordering::Relaxed);
    }
}

pub(super) async fn run(bench: &Bench<'_>, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let idle = Pace {
        name: "one event every 100 ms",
        every: Duration::from_millis(100),
        events: effort.choose(100, 20),
    };
    let busy = Pace {
        name: "2,000 events/s",
        every: Duration::from_micros(500),
        events: effort.choose(20_000, 4_000),
    };
    let process = bench.environment.process();
    bench.bus(&[]).start(&process, vec![RELAYED.to_owned()])?;
    let producer = bench.warm_producer(RELAYED).await?;
    let reader = Reader::open(bench)?;
    // Warms up the relay's producer.
    measure(&reader, Pace { events: 1, ..idle }, async |pace, clock| commit(bench, pace, clock).await)
        .await?;

    let mut rows = Vec::new();
    for pace in [idle, busy] {
        let step = Step::start("latency");
        let (mut relayed, mut bare) = (Vec::new(), Vec::new());
        for round in 1..=effort.rounds() {
            step.note(format!("{}, round {round}", pace.name));
            relayed.push(measure(&reader, pace, async |pace, clock| commit(bench, pace, clock).await).await?);
            bare.push(
                measure(&reader, pace, async |pace, clock| produce(&producer, pace, clock).await).await?,
            );
        }
        step.done(pace.name);
        for (name, per_mille) in [("p50", 500), ("p99", 990), ("p99.9", 999)] {
            let of = |rounds: &[Vec<f64>]| {
                Rounds::new(rounds.iter().map(|latencies| percentile(latencies, per_mille)).collect())
            };
            let row = Row::new(
                format!("Commit to broker, {}: {name}", pace.name),
                Unit::Milliseconds,
                of(&relayed),
            );
            let goal = name == "p99" && pace.every == busy.every;
            rows.push(if goal { row.goal(Goal::Below(100.0)) } else { row });
            rows.push(Row::new(
                format!("Bare producer, {}: {name}", pace.name),
                Unit::Milliseconds,
                of(&bare),
            ));
        }
    }
    stop(&process).await?;
    Ok(rows)
}

/// Returns the sorted latencies in milliseconds of the events that `write` writes at a pace.
async fn measure(
    reader: &Reader,
    pace: Pace,
    write: impl AsyncFnOnce(Pace, Arc<Clock>) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<f64>> {
    let marks = (0..pace.events).map(|_| AtomicU64::new(u64::MAX)).collect();
    let clock = Arc::new(Clock { begun: Instant::now(), marks });
    let arrivals = timeout(pace.every * u32::try_from(pace.events)? + ARRIVAL_TIMEOUT, async {
        let (arrivals, ()) =
            tokio::try_join!(reader.arrivals(pace.events, &clock), write(pace, Arc::clone(&clock)))?;
        Ok::<_, anyhow::Error>(arrivals)
    });
    let arrivals = arrivals.await.context("events did not arrive")??;
    let marks = clock.marks.iter().map(|mark| mark.load(Ordering::Relaxed));
    // An event may arrive before the commit returns to its writer.
    let mut latencies: Vec<_> = std::iter::zip(arrivals, marks)
        .map(|(arrival, mark)| Duration::from_nanos(arrival.saturating_sub(mark)).as_secs_f64() * 1e3)
        .collect();
    latencies.sort_by(f64::total_cmp);
    Ok(latencies)
}

/// Commits each event in a transaction of its own at its time.
async fn commit(bench: &Bench<'_>, pace: Pace, clock: Arc<Clock>) -> anyhow::Result<()> {
    let writers = (0..WRITERS).map(async |writer| {
        for number in (writer..pace.events).step_by(WRITERS) {
            sleep_until((clock.begun + pace.every * u32::try_from(number)?).into()).await;
            let event = Measured::new(number);
            bench.db.tx(async |tx| messaging::outbox::append(tx, &event).await).await?;
            clock.mark(number);
        }
        anyhow::Ok(())
    });
    try_join_all(writers).await?;
    Ok(())
}

async fn produce(producer: &FutureProducer, pace: Pace, clock: Arc<Clock>) -> anyhow::Result<()> {
    for number in 0..pace.events {
        sleep_until((clock.begun + pace.every * u32::try_from(number)?).into()).await;
        let ready = PreparedMessage::of(&Measured::new(number))?;
        clock.mark(number);
        // The reader measures the arrival.
        drop(ready.send(producer, RELAYED, None).await?);
    }
    Ok(())
}

/// A reader outside any group.
struct Reader(StreamConsumer);

impl Reader {
    fn open(bench: &Bench<'_>) -> anyhow::Result<Self> {
        let mut client: ClientConfig = bench.producer();
        // A consumer does not have these settings of a producer.
        for name in ["enable.idempotence", "acks", "compression.type", "message.timeout.ms", "linger.ms"] {
            client.remove(name);
        }
        client.set("group.id", "bench").set("enable.auto.commit", "false").set("fetch.wait.max.ms", "5");
        let (consumer, metadata_client): (StreamConsumer, BaseConsumer) =
            (client.create()?, client.create()?);
        let mut list = TopicPartitionList::new();
        tokio::task::block_in_place(|| {
            let metadata = metadata_client.fetch_metadata(Some(RELAYED), ARRIVAL_TIMEOUT)?;
            for partition in metadata.topics().iter().flat_map(rdkafka::metadata::MetadataTopic::partitions) {
                let (_, end) = metadata_client.fetch_watermarks(RELAYED, partition.id(), ARRIVAL_TIMEOUT)?;
                list.add_partition_offset(RELAYED, partition.id(), Offset::Offset(end))?;
            }
            anyhow::Ok(())
        })?;
        consumer.assign(&list)?;
        Ok(Self(consumer))
    }

    /// Returns the time of each event's first arrival.
    async fn arrivals(&self, events: usize, clock: &Clock) -> anyhow::Result<Vec<u64>> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Arrived {
            number: usize,
        }
        let (mut arrivals, mut missing) = (vec![u64::MAX; events], events);
        while missing > 0 {
            let message = self.0.recv().await?;
            let now = clock.now();
            let Arrived { number } = serde_json::from_slice(message.payload().unwrap_or_default())?;
            if arrivals[number] == u64::MAX {
                arrivals[number] = now;
                missing -= 1;
            }
        }
        Ok(arrivals)
    }
}
