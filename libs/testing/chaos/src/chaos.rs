//! `cargo dev chaos`: everything breaks while everybody writes, and then the books are checked.

mod agreement;
mod chats;
pub mod checks;
mod commissions;
mod counters;
mod platform;
mod replica;
pub mod report;
pub mod settle;
pub mod writers;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use console::style;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use testkit::history::Log;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::counters::Counters;
use self::platform::{Fault, Platform};
use self::report::Outcome;
use self::settle::Recordings;
use self::writers::{Answers, Load};
use devkit::bus::Kind;
use devkit::signals::Signals;
use devkit::stack::Lock;
use devstack::{processes, services};

/// Writers of each service.
const WRITERS: usize = 4;
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a writer waits for an answer.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Kill, freeze and restart everything under load, then check that no event was lost or out of order
///
/// Each service runs as three processes with a database of their own. At random, processes are killed
/// and frozen, connections cut, the database and nodes of the broker crashed, while people write. The end is a
/// verdict: every committed event delivered, none that was not, each key in order, each consumer's receipts
/// complete and in order, every outbox empty, nothing parked or put aside, no process ended by itself; every deal has one
/// chat, every object's status follows from its deals, every agent's balance from their accruals, and every
/// replica equals its source. Exits with 1 otherwise.
#[derive(Args)]
pub struct Chaos {
    /// How long things break; of a long run, in each of its legs
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// A long run: leg after leg, each with empty data and judged by itself, until so many events were committed in all.
    /// Begun again after it was interrupted, it goes on behind the last leg that was judged
    #[arg(long, conflicts_with = "seed")]
    events: Option<u64>,
    /// The order of troubles; the verdict names it
    #[arg(long)]
    seed: Option<u64>,
    /// The embedded broker has one node; Apache Kafka has three
    #[arg(long, value_enum, default_value_t = Kind::Embedded)]
    broker: Kind,
}

/// What is counted, as it is told, and the query that counts it.
type Count = (&'static str, &'static str);

/// What troubles there were, and the longest time in which nothing was delivered.
pub struct InjectedFaults {
    pub count: u64,
    pub longest_gap: Duration,
}

impl Chaos {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let _lock = Lock::take("chaos")?;
        let mut signals = Signals::listen()?;
        // Once, so that all legs of a long run are of the same code.
        let services = services::all();
        tokio::select! {
            built = processes::build(&services) => built?,
            () = signals.stop() => bail!("interrupted"),
        }
        let is_sound = match self.events {
            None => self.round(self.seed.unwrap_or_else(rand::random), &mut signals).await?.is_some(),
            Some(events) => self.rounds(events, &mut signals).await?,
        };
        Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Leg after leg, until so many events were committed; says whether all was as promised.
    async fn rounds(&self, events: u64, signals: &mut Signals) -> anyhow::Result<bool> {
        let mut counters = Counters::load(self.broker)?;
        while counters.committed < events {
            let how_far =
                format!("Leg {}: {} of {events} events so far", counters.rounds + 1, counters.committed);
            devkit::say(&style(how_far).bold().to_string());
            let Some(outcome) = self.round(rand::random(), signals).await? else { return Ok(false) };
            counters.add(&outcome);
            counters.save(self.broker)?;
        }
        devkit::say(&counters.to_string());
        devkit::say(&format!("written to {}", counters.finish(self.broker)?.display()));
        Ok(true)
    }

    /// A platform from its first process to the verdict; what came of it, if all was as promised.
    async fn round(&self, seed: u64, signals: &mut Signals) -> anyhow::Result<Option<Outcome>> {
        let mut platform = tokio::select! {
            platform = Platform::prepare(self.broker) => platform?,
            () = signals.stop() => bail!("interrupted"),
        };
        let result = tokio::select! {
            result = async {
                platform.start().await?;
                self.inject_faults(&mut platform, seed).await
            } => result,
            () = signals.stop() => Err(anyhow::anyhow!("interrupted")),
        };
        platform.stop().await?;
        let outcome = result?;
        if outcome.report() {
            return Ok(Some(outcome));
        }
        let broker = if self.broker == Kind::Kafka { " --broker kafka" } else { "" };
        devkit::say(&format!("Again: cargo dev chaos --seconds {} --seed {seed}{broker}", self.seconds));
        Ok(None)
    }

    async fn inject_faults(&self, platform: &mut Platform, seed: u64) -> anyhow::Result<Outcome> {
        let topics = services::topics(&platform.services);
        let recordings =
            Recordings::open(&platform.services, &platform.database_url(), &platform.brokers()?, &topics)
                .await?;
        let (ending, answers) = (CancellationToken::new(), Arc::new(Answers::default()));
        let mut writers = JoinSet::new();
        let client = devkit::http::client()?;
        for _ in 0..WRITERS {
            let load = Load {
                client: &client,
                timeout: RESPONSE_TIMEOUT,
                issuer: &platform.issuer,
                answers: &answers,
                ending: &ending,
            };
            load.spawn(&mut writers, |service| platform.base(service))?;
        }

        devkit::say(&style(format!("{} s of fault, seed {seed}", self.seconds)).bold().to_string());
        let faults = self.fault_loop(platform, recordings.log(), seed).await?;
        platform.restore().await?;
        ending.cancel();
        writers.join_all().await;
        let requests = answers.take().successful;
        Outcome::of(&recordings, faults, requests, || {
            platform.restart_ended()?;
            Ok(platform.ended)
        })
        .await
    }

    /// One trouble after the other, each for a while of its own.
    async fn fault_loop(
        &self,
        platform: &mut Platform,
        log: &Log,
        seed: u64,
    ) -> anyhow::Result<InjectedFaults> {
        let mut random = StdRng::seed_from_u64(seed);
        let started = Instant::now();
        let end = started + Duration::from_secs(self.seconds);
        let mut active: Vec<(Instant, Fault)> = Vec::new();
        let mut next = started + Duration::from_secs(2);
        let (mut faults, mut count, mut last_delivery, mut longest_gap) = (0, 0, started, Duration::ZERO);
        while Instant::now() < end {
            tokio::time::sleep(POLL_INTERVAL).await;
            platform.restart_ended()?;
            let now = Instant::now();
            if log.count() > count {
                count = log.count();
                last_delivery = now;
            }
            longest_gap = longest_gap.max(now - last_delivery);
            for (_, fault) in active.extract_if(.., |(until, _)| *until < now) {
                platform.recover(&fault).await?;
            }
            if now < next {
                continue;
            }
            next = now + Duration::from_millis(random.random_range(300..2_500));
            let fault = Fault::choose(&mut random, platform.replicas.len());
            let duration = Duration::from_millis(random.random_range(500..8_000));
            if platform.inject(&fault).await? {
                devkit::say(&format!(
                    "{:>6.1} s  {}",
                    (now - started).as_secs_f32(),
                    platform.describe(&fault, duration)
                ));
                active.push((now + duration, fault));
                faults += 1;
            }
        }
        Ok(InjectedFaults { count: faults, longest_gap })
    }
}
