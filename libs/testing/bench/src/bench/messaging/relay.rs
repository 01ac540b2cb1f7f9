//! The drain of a backlog against the same producer without a database, and the same statements
//! without a broker.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::ensure;
use rdkafka::producer::FutureProducer;
use tokio_postgres::Client;

use super::events::{self, Measured, PreparedMessage};
use super::{Bench, RELAYED, counter, rate};
use crate::bench::Effort;
use crate::bench::environment::stop;
use crate::bench::report::{Goal, Rounds, Row, Unit};
use devkit::progress::Step;

/// The metric that counts acknowledged events.
pub(super) const ACKED: &str = "outbox_commit_to_ack_seconds_count";
/// Events that the relay sends one by one before the backlog.
const BEFORE: u32 = 100;
/// Rows of a batch, as in the relay. The statement also has the relay's limit of 4 MiB.
const BATCH: u16 = 500;
/// Batches in flight of the bare producer.
const MAX_IN_FLIGHT: usize = 8;
/// Distinct messages that the bare producer repeats.
const DIFFERENT: u32 = 20_000;

pub(super) async fn run(bench: &Bench<'_>, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let rows = effort.choose(200_000, 50_000);
    let step = Step::start("relay");
    let connection = bench.environment.connect(super::SCHEMA).await?;
    let other = bench.environment.connect(super::SCHEMA).await?;
    events::fill(&connection.client, DIFFERENT).await?;
    let messages = PreparedMessage::load(&connection.client, DIFFERENT).await?;
    let producer = bench.warm_producer(RELAYED).await?;
    let (mut relayed, mut sent, mut read) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=effort.rounds() {
        step.note(format!("round {round}: the relay drains {rows} events"));
        events::clear(&connection.client).await?;
        relayed.push(drain(bench, &connection.client, rows).await?);
        step.note(format!("round {round}: the bare producer"));
        sent.push(produce(&producer, &messages, rows).await?);
        step.note(format!("round {round}: PostgreSQL alone"));
        events::clear(&connection.client).await?;
        events::fill(&connection.client, rows).await?;
        read.push(measure_statements(&connection.client, &other.client, rows).await?);
    }
    step.done(format!("{rows} events, {} rounds", effort.rounds()));
    let of_producer = Rounds::ratios(&relayed, &sent);
    let of_database = Rounds::ratios(&relayed, &read);
    Ok(vec![
        Row::new("Relay, events/s", Unit::PerSecond, Rounds::new(relayed)).goal(Goal::AtLeast(20_000.0)),
        Row::new("Bare producer, messages/s", Unit::PerSecond, Rounds::new(sent)),
        Row::new("PostgreSQL alone, rows/s read and removed", Unit::PerSecond, Rounds::new(read)),
        Row::new("Relay / bare producer", Unit::Ratio, of_producer).goal(Goal::AtLeast(0.5)),
        Row::new("Relay / PostgreSQL alone", Unit::Ratio, of_database),
    ])
}

/// Returns the events a second from the first batch of a backlog to the last.
///
/// The backlog appears at an idle relay, as after an import or an outage of the broker.
pub(super) async fn drain(bench: &Bench<'_>, client: &Client, rows: u32) -> anyhow::Result<f64> {
    let process = bench.environment.process();
    bench.bus(&[]).start(&process, vec![RELAYED.to_owned()])?;
    for number in 0..BEFORE {
        let event = Measured::new(number as usize);
        bench.db.tx(async |tx| messaging::outbox::append(tx, &event).await).await?;
        while counter(&process, ACKED)? <= number {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    events::fill(client, rows).await?;
    let rate = rate(&process, ACKED, BEFORE, rows).await;
    stop(&process).await?;
    let left = client.query_one("select count(*) from outbox where topic = $1", &[&RELAYED]).await?;
    let left: i64 = left.get(0);
    ensure!(left == 0, "{left} events are left in the outbox");
    rate
}

/// Returns the messages a second of the bare producer, which awaits acknowledgements batch by
/// batch.
async fn produce(producer: &FutureProducer, messages: &[PreparedMessage], count: u32) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let mut in_flight = VecDeque::new();
    let mut batch = Vec::new();
    for message in messages.iter().cycle().take(count.try_into()?) {
        batch.push(message.send(producer, RELAYED, None).await?);
        if batch.len() < usize::from(BATCH) {
            continue;
        }
        in_flight.push_back(std::mem::take(&mut batch));
        if in_flight.len() > MAX_IN_FLIGHT {
            wait_for_acks(in_flight.pop_front().unwrap_or_default()).await?;
        }
    }
    for batch in in_flight.into_iter().chain([batch]) {
        wait_for_acks(batch).await?;
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}

async fn wait_for_acks(batch: Vec<rdkafka::producer::DeliveryFuture>) -> anyhow::Result<()> {
    for ack in batch {
        ack.await?.map_err(|(error, _)| error)?;
    }
    Ok(())
}

/// Returns the rows a second that the relay's statements read and delete. One batch is read while
/// another is deleted.
async fn measure_statements(reader: &Client, deleter: &Client, rows: u32) -> anyhow::Result<f64> {
    let read = reader
        .prepare(
            "select id, event_id, topic, key, type, payload, headers, created_at \
             from outbox_next($1, $2, '{}', '{}', $3, 4194304)",
        )
        .await?;
    // The row of the lease remains after the relay has stopped.
    deleter.batch_execute("update outbox_lease set expires_at = 'infinity'").await?;
    let delete = deleter.prepare("select outbox_delete($1, $2, owner, epoch) from outbox_lease").await?;
    let held_topics: Vec<String> = Vec::new();
    let begun = Instant::now();
    let (mut topics, mut taken, mut removed): (Vec<String>, Vec<i64>, i64) = (Vec::new(), Vec::new(), 0);
    while removed < i64::from(rows) {
        let limit = i32::from(BATCH);
        let next = async { reader.query(&read, &[&taken, &held_topics, &limit]).await };
        let gone = async { deleter.query_one(&delete, &[&topics, &taken]).await };
        let (next, gone) = tokio::try_join!(next, gone)?;
        removed += gone.get::<_, i64>(0);
        taken = next.iter().map(|row| row.get(0)).collect();
        topics = next.iter().map(|row| row.get(2)).collect();
    }
    let rate = f64::from(rows) / begun.elapsed().as_secs_f64();
    deleter.batch_execute("update outbox_lease set expires_at = clock_timestamp()").await?;
    Ok(rate)
}
