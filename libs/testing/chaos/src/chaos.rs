//! `cargo dev chaos`: injects faults under load, then checks events and data.

mod access;
mod agreement;
mod broker;
mod chats;
pub mod checks;
mod commissions;
mod counters;
pub mod fault;
mod loss;
mod platform;
mod replica;
pub mod report;
mod round;
pub mod settle;
mod takeovers;
pub mod writers;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use console::style;
use tokio::time::Instant;

use self::counters::Counters;
use self::platform::Platform;
use self::report::Outcome;
use devkit::bus::Kind;
use devkit::signals::Signals;
use devkit::stack::Lock;
use devstack::{processes, services};

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Kill, freeze and restart everything under load, then check that no event was lost or out of
/// order
///
/// Each service runs as three processes. All of them share one database and one broker, which the
/// command starts. While users write, the command kills and freezes processes and nodes of the
/// broker, cuts connections, crashes the database, promotes its standby, and lets passwords and
/// certificates expire, all at random. In between, it promotes a standby without the last commits,
/// or restores a service from a backup, and aligns the consumers as an operator does.
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
    /// committed. Continues after the rounds in docs/chaos-kafka.json
    #[arg(long, conflicts_with = "seed")]
    events: Option<u64>,
    /// Also run rounds until each kind of fault was injected this number of times
    #[arg(long, requires = "events", default_value_t = 0)]
    faults: u64,
    /// Begin no round after this number of minutes. The next invocation continues the run
    #[arg(long, requires = "events")]
    minutes: Option<u64>,
    /// Seed of the sequence of faults; a failed round prints it
    #[arg(long)]
    seed: Option<u64>,
    /// The embedded broker has one node; Apache Kafka has three
    #[arg(long, value_enum, default_value_t = Kind::Embedded)]
    broker: Kind,
}

/// A printed name and the query that counts.
type Count = (&'static str, &'static str);

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

    /// Runs rounds until the run is complete or the time is over. Returns false after a failed
    /// round.
    async fn rounds(&self, events: u64, signals: &mut Signals) -> anyhow::Result<bool> {
        let mut counters = Counters::load(self.broker)?;
        let last_begin = self.minutes.map(|minutes| Instant::now() + Duration::from_mins(minutes));
        while !counters.has(events, self.faults) && last_begin.is_none_or(|last| Instant::now() < last) {
            let progress =
                format!("Round {}: {} of {events} events so far", counters.rounds + 1, counters.committed);
            devkit::print_line(&style(progress).bold().to_string());
            let outcome = self.round(rand::random(), signals).await?;
            counters.add(outcome.as_ref());
            counters.save(self.broker)?;
            if outcome.is_none() {
                return Ok(false);
            }
        }
        devkit::print_line(&counters.to_string());
        let state = if counters.has(events, self.faults) { "complete" } else { "not complete yet" };
        devkit::print_line(&format!("The run is {state}: docs/chaos.md"));
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
                round::run(&mut platform, seed, Duration::from_secs(self.seconds)).await
            } => result,
            () = signals.stop() => Err(anyhow::anyhow!("interrupted")),
        };
        platform.stop().await?;
        let outcome = result?;
        if outcome.report() {
            return Ok(Some(outcome));
        }
        let broker = if self.broker == Kind::Kafka { " --broker kafka" } else { "" };
        devkit::print_line(&format!(
            "Repeat: cargo dev chaos --seconds {} --seed {seed}{broker}",
            self.seconds
        ));
        Ok(None)
    }
}
