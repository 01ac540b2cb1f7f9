//! A consumer with an empty handler, with and without batches, against the same transactions
//! without a broker.

use std::time::Instant;

use db::Tx;
use futures_util::future::try_join_all;
use messaging::{Failure, Handler, Message};
use rdkafka::producer::FutureProducer;

use super::events::{self, KEYS, PreparedMessage};
use super::{Bench, CONSUMED, rate};
use crate::bench::Effort;
use crate::bench::environment::stop;
use crate::bench::report::{Goal, Rounds, Row, Unit};
use devkit::progress::Step;

/// The number of partitions, and of concurrent transactions of a consumer.
const PARTITIONS: u32 = 4;

const BATCHES: &[messaging::Subscription] = &[messaging::Subscription::of::<EmptyHandler>()];
const SINGLE_MESSAGES: &[messaging::Subscription] = &[messaging::Subscription::of::<UnbatchedEmptyHandler>()];

/// A handler that does nothing.
struct EmptyHandler;

/// [`EmptyHandler`] with a transaction for each message.
struct UnbatchedEmptyHandler;

impl Handler for UnbatchedEmptyHandler {
    const GROUP: &'static str = "bench.alone";
    const TOPICS: &'static [&'static str] = EmptyHandler::TOPICS;
    const MAX_BATCH: usize = 1;

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        EmptyHandler::handle(tx, message).await
    }
}

impl Handler for EmptyHandler {
    const GROUP: &'static str = "bench.bench";
    const TOPICS: &'static [&'static str] = &[CONSUMED];

    async fn handle(_: &mut Tx, _: &Message) -> Result<(), Failure> {
        Ok(())
    }
}

pub(super) async fn run(bench: &Bench<'_>, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let count = effort.choose(10_000, 4_000);
    let step = Step::start("consumer");
    let connection = bench.environment.connect(super::SCHEMA).await?;
    events::fill(&connection.client, count).await?;
    let mut messages = PreparedMessage::load(&connection.client, count).await?;
    connection.client.batch_execute("truncate outbox").await?;
    let producer = bench.warm_producer(CONSUMED).await?;
    let (mut consumed, mut baseline, mut committed) = (Vec::new(), Vec::new(), Vec::new());
    let mut sequence = 0;
    for round in 1..=effort.rounds() {
        step.note(format!("round {round}: {count} messages"));
        for message in &mut messages {
            sequence += 1;
            message.sequence = sequence;
        }
        send(&producer, &messages).await?;
        consumed.push(consume(bench, BATCHES, count).await?);
        step.note(format!("round {round}: a transaction for each message"));
        baseline.push(consume(bench, SINGLE_MESSAGES, count).await?);
        step.note(format!("round {round}: transactions alone"));
        committed.push(commit(bench, count, sequence).await?);
    }
    step.done(format!("{count} messages, {} rounds", effort.rounds()));
    let gain = Rounds::ratios(&consumed, &baseline);
    let ratios = Rounds::ratios(&baseline, &committed);
    Ok(vec![
        Row::new("Consumer, messages/s", Unit::PerSecond, Rounds::new(consumed))
            .goal(Goal::AtLeast(12_000.0)),
        Row::new("Consumer, one message a transaction, a second", Unit::PerSecond, Rounds::new(baseline)),
        Row::new("The same transactions alone, a second", Unit::PerSecond, Rounds::new(committed)),
        Row::new("Consumer / one message a transaction", Unit::Ratio, gain).goal(Goal::AtLeast(3.0)),
        Row::new("One message a transaction / transactions alone", Unit::Ratio, ratios),
    ])
}

/// Sends each key to an explicit partition, so that all partitions have equal work.
async fn send(producer: &FutureProducer, messages: &[PreparedMessage]) -> anyhow::Result<()> {
    let mut acks = Vec::new();
    for (partition, message) in (0..i32::try_from(PARTITIONS)?).cycle().zip(messages) {
        acks.push(message.send(producer, CONSUMED, Some(partition)).await?);
    }
    for ack in acks {
        ack.await?.map_err(|(error, _)| error)?;
    }
    Ok(())
}

async fn consume(
    bench: &Bench<'_>,
    consumers: &'static [messaging::Subscription],
    count: u32,
) -> anyhow::Result<f64> {
    let process = bench.environment.process();
    bench.bus(consumers).start(&process, vec![CONSUMED.to_owned()])?;
    let rate = rate(&process, "consumer_applied_total", 0, count).await;
    stop(&process).await?;
    rate
}

/// Runs the transactions alone, on as many connections as the consumer uses.
async fn commit(bench: &Bench<'_>, count: u32, sequence: i64) -> anyhow::Result<f64> {
    let connections = try_join_all((0..PARTITIONS).map(|_| bench.environment.connect(super::SCHEMA))).await?;
    let begun = Instant::now();
    let runs = std::iter::zip(0.., &connections).map(async |(first, connection)| {
        let client = &connection.client;
        let receive = client
            .prepare(
                "insert into inbox (consumer, topic, key, sequence, partition, \"offset\") \
                 values ($1, $2, $3, $4, 0, $4) \
                 on conflict (consumer, topic, key) do update set sequence = excluded.sequence \
                 where inbox.sequence < excluded.sequence returning blocked",
            )
            .await?;
        for n in (first..count).step_by(PARTITIONS as usize) {
            client.batch_execute("begin").await?;
            // Each connection has keys of its own, as each partition has.
            let key = format!("{}", n / PARTITIONS % (KEYS / PARTITIONS) * PARTITIONS + first);
            client
                .query_one(&receive, &[&"bench.alone", &CONSUMED, &key, &(sequence + i64::from(n))])
                .await?;
            client.batch_execute("commit").await?;
        }
        anyhow::Ok(())
    });
    try_join_all(runs).await?;
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}
