//! `cargo dev test`: starts a database and brokers, runs the suite, and prints a summary.

mod broker;
mod job;
mod suite;

use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;

use self::job::{Outcome, run_all, run_demo};
use self::suite::Arguments;
use crate::backends::{Backends, Lane};
use devkit::bus::Kind;
use devkit::stack::Lock;

/// Number of test programs of the whole workspace that run in parallel. One program waits for
/// timers while another uses the processors. A third would slow all of them down on two processors.
const CONCURRENCY: u8 = 2;
/// The exit code of `cargo test` after a failed test.
const FAILED: u8 = 101;
/// Number of the slowest programs in the summary.
const SLOWEST_COUNT: usize = 5;

/// Run the tests with a database and brokers of their own
///
/// Test programs of the whole workspace run in parallel, each with a broker of its own. The output
/// of a program is printed when it has ended; until then it is in .dev/logs/test. Packages and
/// filters narrow the run as usual, and their output is printed immediately.
///
/// `--kafka real` uses Apache Kafka. It includes the tests that only Apache Kafka passes, excludes
/// those that need the embedded broker, and plays the demo beside them. It excludes test modules
/// that never read the bus, unless `--every` is given. `--kafka both` runs each test once: on
/// Apache Kafka if its result can depend on the broker, else on an embedded broker. Named packages
/// run without the demo.
#[derive(Args)]
pub(crate) struct Test {
    /// Brokers of the tests if `KAFKA_BROKERS` is not set; Apache Kafka needs Java 17 and Maven
    #[arg(long, value_enum, default_value = "embedded")]
    kafka: Lane,
    /// With `--kafka real`: every test, not only those whose result can depend on the broker
    #[arg(long)]
    every: bool,
    /// Number of parallel test programs; the default is 2, or 1 with named packages,
    /// `KAFKA_BROKERS` or `--kafka real`
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=8))]
    at_once: Option<u8>,
    /// Run a failed test once more, alone; the summary names the tests that passed only then
    #[arg(long)]
    again: bool,
    /// Arguments of `cargo test`, as in `-p selections snapshots -- --nocapture`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CARGO TEST ARGUMENTS")]
    arguments: Vec<String>,
}

impl Test {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        Backends::run_command(async |backends| self.test(backends).await).await
    }

    async fn test(&self, backends: &mut Backends) -> anyhow::Result<ExitCode> {
        let arguments = Arguments::parse(&self.arguments);
        ensure!(
            self.kafka != Lane::Both
                || !arguments.has_selection() && devkit::variable("KAFKA_BROKERS").is_none(),
            "--kafka both runs the whole workspace on brokers of its own; \
             leave out packages, targets and filters, and unset KAFKA_BROKERS"
        );
        let plays_demo = self.kafka != Lane::Embedded && !arguments.has_packages();
        ensure!(!plays_demo || Lock::holder("up")?.is_none(), "a stack runs here; `cargo dev down` stops it");
        let began = Instant::now();
        let jobs = match arguments.build(self.kafka, self.every).await? {
            Ok(jobs) => jobs,
            Err(code) => return Ok(code),
        };
        let built = began.elapsed();
        backends.prepare(&self.brokers(&arguments)).await?;
        let demo = if plays_demo { Some(backends.demo().await?) } else { None };
        let environments = backends.environments()?;
        // The demo mostly waits, so it runs beside the tests.
        let (mut outcomes, demo) = tokio::try_join!(run_all(jobs, &environments, self.again), async {
            match demo {
                Some(command) => run_demo(command).await.map(Some),
                None => Ok(None),
            }
        })?;
        outcomes.extend(demo);
        let all_succeeded = self.print_summary(outcomes, built, began.elapsed());
        Ok(if all_succeeded { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }

    /// Returns the broker of each program that runs at once.
    fn brokers(&self, arguments: &Arguments) -> Vec<Kind> {
        let broker = match self.kafka {
            Lane::Embedded => Kind::Embedded,
            Lane::Real => Kind::Kafka,
            Lane::Both => return vec![Kind::Kafka, Kind::Embedded],
        };
        // Programs that share a broker would consume each other's events. Apache Kafka alone uses
        // both processors.
        let one_at_a_time =
            arguments.has_packages() || broker == Kind::Kafka || devkit::variable("KAFKA_BROKERS").is_some();
        let at_once = self.at_once.unwrap_or(if one_at_a_time { 1 } else { CONCURRENCY });
        vec![broker; at_once.into()]
    }

    /// Prints the summary. Returns true if all programs succeeded.
    fn print_summary(&self, mut outcomes: Vec<Outcome>, built: Duration, took: Duration) -> bool {
        outcomes.sort_by_key(|outcome| std::cmp::Reverse(outcome.took));
        let seconds = |outcome: &Outcome| format!("{} {} s", outcome.name, outcome.took.as_secs());
        let longest: Vec<_> = outcomes.iter().take(SLOWEST_COUNT).map(seconds).collect();
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
                print!("{name} passed only when run again: {}\n{}", recovered.join(", "), counts.reasons);
            }
        }
        if self.kafka != Lane::Embedded {
            print!("Apache Kafka was used: ");
        }
        let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
        let (passed, failed) = (sum(|outcome| outcome.counts.passed), sum(|outcome| outcome.counts.failed));
        let ignored = sum(|outcome| outcome.counts.ignored);
        println!("{passed} tests passed, {failed} failed, {ignored} ignored");
        outcomes.iter().all(|outcome| outcome.succeeded)
    }
}

/// Returns the exit code of a command as that of this process, [`FAILED`] if a signal ended it.
pub(crate) fn code(status: ExitStatus) -> ExitCode {
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
}
