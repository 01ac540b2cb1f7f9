//! The bus: the drain rate of a backlog, the latency from commit to broker, and the rate of a
//! consumer.

mod consumer;
mod events;
mod latency;
mod obstacles;
mod relay;

use std::time::{Duration, Instant};

use db::Db;
use rdkafka::ClientConfig;
use runtime::Process;

use super::environment::Environment;
use super::report::Row;
use super::{BenchEntry, Effort};

pub(super) const BENCH: BenchEntry = BenchEntry {
    name: "messaging",
    about: "the relay against the bare producer and behind other rows, commit to broker, the consumer against \
            its transactions",
    run: |environment, effort, rows| Box::pin(run(environment, effort, rows)),
};

const SCHEMA: &str = "bench";
/// The topics of the relay and of the consumer.
const RELAYED: &str = "platform.bench.relayed.v1";
const CONSUMED: &str = "platform.bench.consumed.v1";
/// A topic that does not exist.
const MISSING_TOPIC: &str = "platform.bench.held.v1";

/// A service that consists of its bus.
struct Bench<'g> {
    environment: &'g Environment,
    db: Db,
    config: messaging::Config,
}

async fn run(environment: &Environment, effort: Effort, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    environment.make_topics(&[RELAYED, CONSUMED]).await?;
    let mut env = environment.env()?;
    let config = db::Config::read(&mut env, SCHEMA).zip(messaging::Config::read(&mut env));
    let (database, config) = env.finish(config)?;
    db::migrate(&database, [messaging::MIGRATIONS]).await?;
    let bench = Bench { environment, db: Db::new(&database)?, config };
    events::create_table(&environment.connect(SCHEMA).await?.client).await?;
    rows.extend(relay::run(&bench, effort).await?);
    rows.extend(obstacles::run(&bench, effort).await?);
    rows.extend(latency::run(&bench, effort).await?);
    rows.extend(consumer::run(&bench, effort).await?);
    Ok(())
}

impl Bench<'_> {
    fn bus(&self, consumers: &'static [messaging::Subscription]) -> messaging::Bus {
        messaging::Bus::new("bench", self.db.clone(), self.config.clone(), consumers)
    }

    /// Returns the configuration of the relay's producer.
    fn producer(&self) -> ClientConfig {
        self.config.producer()
    }
}

/// Returns the value of a counter, 0 while it has none.
fn counter(process: &Process, name: &str) -> anyhow::Result<u32> {
    let text = process.metrics().encode()?;
    let value = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.rsplit(' ').next());
    Ok(value.map_or(Ok(0), str::parse)?)
}

/// Returns the rate at which a counter moves by `count` from `from`, measured from its first
/// change.
async fn rate(process: &Process, name: &str, from: u32, count: u32) -> anyhow::Result<f64> {
    let mut first = None;
    loop {
        let value = counter(process, name)?;
        match first {
            None if value > from => first = Some((Instant::now(), value)),
            Some((begun, first)) if value >= from + count => {
                return Ok(f64::from(value - first) / begun.elapsed().as_secs_f64());
            }
            _ => {}
        }
        anyhow::ensure!(!process.stopping().is_cancelled(), "the service has stopped");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
