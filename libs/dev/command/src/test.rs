//! `cargo dev test`: starts a database and brokers, runs the suite, and prints a summary.

mod broker;
mod job;
mod suite;

use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;

use self::job::{Outcome, run_all};
use self::suite::Arguments;
use crate::needs::{Lane, Needs};
use devkit::stack::Lock;

/// Of the whole workspace so many test binaries run at once: while one waits for timers, another works. A third would only make
/// all of them late on two processors.
const AT_ONCE: u8 = 2;
/// As cargo does.
const FAILED: u8 = 101;
/// So many of the longest are named in the end.
const LONGEST: usize = 5;

/// Run the tests with a database and a broker of their own
///
/// Those of the whole workspace run side by side, each test binary with a broker that it shares with no other at its time;
/// what it says is shown when it has ended (until then: .dev/logs/test). Packages and filters narrow it down as usual, and
/// what they say is seen as it comes. `--kafka real` runs them against a real Apache Kafka, with those that only a real one
/// can pass and without those that only the embedded one can, and then the demo. It leaves out the test modules that never read
/// the bus, unless `--every` is given. Of named packages there is no demo.
#[derive(Args)]
pub(crate) struct Test {
    /// The broker of the tests, where `KAFKA_BROKERS` names none; a real one needs Java 17 and Maven
    #[arg(long, value_enum, default_value = "embedded")]
    kafka: Lane,
    /// With a real Kafka: every test, not only those that a broker can change
    #[arg(long)]
    every: bool,
    /// How many test binaries run at once: two, or one where packages or `KAFKA_BROKERS` are named or Kafka is real
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=8))]
    at_once: Option<u8>,
    /// A test that fails runs once more, alone; the sum names those that passed only then
    #[arg(long)]
    again: bool,
    /// As of `cargo test`, as in `-p selections snapshots -- --nocapture`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CARGO TEST ARGUMENTS")]
    arguments: Vec<String>,
}

impl Test {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        Needs::during(async |needs| self.test(needs).await).await
    }

    async fn test(&self, needs: &mut Needs) -> anyhow::Result<ExitCode> {
        let mut arguments = Arguments::parse(&self.arguments);
        let plays_demo = self.kafka == Lane::Real && !arguments.names_packages();
        ensure!(!plays_demo || Lock::holder("up")?.is_none(), "a stack runs here; stop it first");
        let began = Instant::now();
        let jobs =
            match arguments.with(self.kafka.choice()).build(self.kafka == Lane::Real && !self.every).await? {
                Ok(jobs) => jobs,
                Err(code) => return Ok(code),
            };
        let built = began.elapsed();
        let at_once = match (self.at_once, devkit::variable("KAFKA_BROKERS")) {
            (Some(at_once), _) => at_once,
            // They would be told what others are told.
            (None, Some(_)) => 1,
            // A real Kafka is work for both processors.
            (None, None) if arguments.names_packages() || self.kafka == Lane::Real => 1,
            (None, None) => AT_ONCE,
        };
        needs.prepare(self.kafka, at_once).await?;
        let outcomes = run_all(jobs, &needs.environments(self.kafka)?, self.again).await?;
        let all_succeeded = self.sum_up(outcomes, built, began.elapsed());
        if !all_succeeded {
            return Ok(ExitCode::from(FAILED));
        }
        if plays_demo {
            needs.demo(self.kafka).await?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Says what came of them, and whether all is well.
    fn sum_up(&self, mut outcomes: Vec<Outcome>, built: Duration, took: Duration) -> bool {
        outcomes.sort_by_key(|outcome| std::cmp::Reverse(outcome.took));
        let seconds = |outcome: &Outcome| format!("{} {} s", outcome.name, outcome.took.as_secs());
        let longest: Vec<_> = outcomes.iter().take(LONGEST).map(seconds).collect();
        println!(
            "\n{} s, of which {} s to build; longest: {}",
            took.as_secs(),
            built.as_secs(),
            longest.join(", ")
        );
        for Outcome { name, counts, .. } in outcomes.iter().filter(|outcome| !outcome.succeeded) {
            print!("{name} failed: {}\n{}", counts.failures.join(", "), counts.reasons);
        }
        for Outcome { name, counts, recovered, .. } in outcomes.iter().filter(|one| one.succeeded) {
            if !recovered.is_empty() {
                print!("{name} passed only again: {}\n{}", recovered.join(", "), counts.reasons);
            }
        }
        if self.kafka == Lane::Real {
            print!("real Kafka: ran, ");
        }
        let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
        let (passed, failed) = (sum(|outcome| outcome.counts.passed), sum(|outcome| outcome.counts.failed));
        let ignored = sum(|outcome| outcome.counts.ignored);
        println!("{passed} tests passed, {failed} failed, {ignored} ignored");
        outcomes.iter().all(|outcome| outcome.succeeded)
    }
}

/// What a command ends with when another one has failed.
pub(crate) fn code(status: ExitStatus) -> ExitCode {
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
}
