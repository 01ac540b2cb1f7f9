//! `cargo dev chaos`: injects faults under load, then checks events and data.

mod agreement;
mod chats;
pub mod checks;
mod commissions;
mod counters;
mod loss;
mod platform;
mod replica;
pub mod report;
pub mod settle;
pub mod writers;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use console::style;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use testkit::history::Log;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::counters::Counters;
use self::loss::Loss;
use self::platform::{Fault, Platform};
use self::report::Outcome;
use self::settle::Recordings;
use self::writers::{Load, RequestResults};
use devkit::bus::Kind;
use devkit::signals::Signals;
use devkit::stack::Lock;
use devstack::{processes, services};

/// Number of writers of each kind.
const WRITERS: usize = 4;
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout of a writer's request.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Kill, freeze and restart everything under load, then check that no event was lost or out of
/// order
///
/// Each service runs as three processes. All of them share one database and one broker, which the
/// command starts. While users write, the command kills and freezes processes, cuts connections,
/// crashes the database, promotes its standby, and crashes nodes of the broker, all at random.
///
/// Then the command checks the events. Every committed event is delivered, and no other. The
/// events of each key are in order. Each consumer has applied every message once and in order. The
/// outboxes are empty, and nothing is parked or dead-lettered. No process ended by itself. Every
/// deal has one chat, every object's status follows from its deals, every agent's balance follows
/// from the accruals, and every copy equals its source. Exits with 1 if a check fails.
#[derive(Args)]
pub struct Chaos {
    /// Time of fault injection in seconds (of each round, with --events)
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Run rounds, each with empty data and a verdict of its own, until this number of events is
    /// committed. After an interruption the next run continues after the last round with a verdict
    #[arg(long, conflicts_with = "seed")]
    events: Option<u64>,
    /// Seed of the sequence of faults; a failed round prints it
    #[arg(long)]
    seed: Option<u64>,
    /// Lose committed changes half-way, and align the consumers as an operator does. The checks
    /// then compare what the database has kept
    #[arg(long, conflicts_with = "events")]
    loss: Option<Loss>,
    /// The embedded broker has one node; Apache Kafka has three
    #[arg(long, value_enum, default_value_t = Kind::Embedded)]
    broker: Kind,
}

/// A printed name and the query that counts.
type Count = (&'static str, &'static str);

/// The number of injected faults, and the longest time without a delivery.
pub struct InjectedFaults {
    pub count: u64,
    pub longest_gap: Duration,
}

/// The simulated users of a platform.
struct Users {
    tasks: JoinSet<()>,
    stopping: CancellationToken,
}

impl Users {
    fn start(platform: &Platform, results: &Arc<RequestResults>) -> anyhow::Result<Self> {
        let (mut tasks, stopping) = (JoinSet::new(), CancellationToken::new());
        let client = devkit::http::client()?;
        for _ in 0..WRITERS {
            let issuer = &platform.issuer;
            let load =
                Load { client: &client, timeout: RESPONSE_TIMEOUT, issuer, results, stopping: &stopping };
            load.spawn(&mut tasks, |service| platform.base(service))?;
        }
        Ok(Self { tasks, stopping })
    }

    async fn stop(self) {
        self.stopping.cancel();
        self.tasks.join_all().await;
    }
}

impl InjectedFaults {
    /// Returns the totals of two periods of faults with a loss between them. The loss counts as one
    /// fault.
    fn and_loss(&self, after: &Self) -> Self {
        Self { count: self.count + 1 + after.count, longest_gap: self.longest_gap.max(after.longest_gap) }
    }
}

impl Chaos {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let _lock = Lock::take("chaos")?;
        let mut signals = Signals::listen()?;
        // Built once, so that all rounds use the same code.
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

    /// Runs rounds until this number of events is committed. Returns false after a failed round.
    async fn rounds(&self, events: u64, signals: &mut Signals) -> anyhow::Result<bool> {
        let mut counters = Counters::load(self.broker)?;
        while counters.committed < events {
            let progress =
                format!("Round {}: {} of {events} events so far", counters.rounds + 1, counters.committed);
            devkit::print_line(&style(progress).bold().to_string());
            let Some(outcome) = self.round(rand::random(), signals).await? else { return Ok(false) };
            counters.add(&outcome);
            counters.save(self.broker)?;
        }
        devkit::print_line(&counters.to_string());
        devkit::print_line(&format!("written to {}", counters.finish(self.broker)?.display()));
        Ok(true)
    }

    /// Runs a round from the first process to the verdict. Returns its outcome if all checks hold.
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
        let loss = self.loss.and_then(|loss| loss.to_possible_value());
        let loss = loss.map(|loss| format!(" --loss {}", loss.get_name())).unwrap_or_default();
        devkit::print_line(&format!(
            "Repeat: cargo dev chaos --seconds {} --seed {seed}{broker}{loss}",
            self.seconds
        ));
        Ok(None)
    }

    async fn inject_faults(&self, platform: &mut Platform, seed: u64) -> anyhow::Result<Outcome> {
        let topics = services::topics(&platform.services);
        let mut recordings =
            Recordings::open(&platform.services, &platform.database_url(), &platform.brokers()?, &topics)
                .await?;
        let results = Arc::new(RequestResults::default());
        let mut users = Users::start(platform, &results)?;

        devkit::print_line(&style(format!("{} s of faults, seed {seed}", self.seconds)).bold().to_string());
        let mut random = StdRng::seed_from_u64(seed);
        let time = Duration::from_secs(self.seconds);
        let faults = match self.loss {
            None => fault_loop(platform, recordings.log(), &mut random, time).await?,
            Some(loss) => {
                let before = fault_loop(platform, recordings.log(), &mut random, time / 2).await?;
                platform.end_faults().await?;
                let lost_changes = loss.inject(platform, &mut recordings, &mut random).await?;
                // Without the load of users, the commands end soon on this machine.
                users.stop().await;
                lost_changes.align(platform).await?;
                users = Users::start(platform, &results)?;
                let after = fault_loop(platform, recordings.log(), &mut random, time / 2).await?;
                before.and_loss(&after)
            }
        };
        platform.end_faults().await?;
        users.stop().await;
        let requests = results.take().successful;
        Outcome::of(&recordings, faults, requests, || {
            platform.restart_ended()?;
            Ok(platform.ended)
        })
        .await
    }
}

/// Injects random faults at random intervals, each for a random time. Faults may overlap.
async fn fault_loop(
    platform: &mut Platform,
    log: &Log,
    random: &mut StdRng,
    time: Duration,
) -> anyhow::Result<InjectedFaults> {
    let started = Instant::now();
    let end = started + time;
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
        let fault = Fault::choose(random, platform.replicas.len());
        let duration = Duration::from_millis(random.random_range(500..8_000));
        if platform.inject(&fault).await? {
            devkit::print_line(&format!(
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
