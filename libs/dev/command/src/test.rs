//! `cargo dev test`: what the tests need, the whole suite as it runs, a sum at the end.

mod job;
mod suite;

use std::collections::HashMap;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;

use self::job::{Outcome, run_all};
use self::suite::Arguments;
use devkit::bus::{Bus, Kind};
use devkit::children;
use devkit::kafka;
use devkit::postgres::{self, Cluster};
use devkit::progress::Step;
use devkit::signals::Signals;
use devkit::stack::Lock;
use devkit::topics;

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
/// can pass and without those that only the embedded one can, and then the demo. Of named packages there is no demo.
#[derive(Args)]
pub(crate) struct Test {
    /// The broker of the tests, where `KAFKA_BROKERS` names none; a real one needs Java 17 and Maven
    #[arg(long, value_enum, default_value = "embedded")]
    kafka: Lane,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Lane {
    Embedded,
    Real,
}

impl Test {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let mut signals = Signals::listen()?;
        let lock = Lock::take("test")?;
        let mut needs = Needs::default();
        let result = tokio::select! {
            result = self.test(&mut needs) => result,
            () = signals.stop() => Err(anyhow::anyhow!("interrupted")),
        };
        for bus in needs.buses {
            bus.close().await?;
        }
        if let Some(cluster) = needs.cluster {
            cluster.stop().await?;
        }
        drop(lock);
        result
    }

    async fn test(&self, needs: &mut Needs) -> anyhow::Result<ExitCode> {
        let mut arguments = Arguments::parse(&self.arguments);
        let plays_demo = self.kafka == Lane::Real && !arguments.names_packages();
        ensure!(!plays_demo || Lock::holder("up")?.is_none(), "a stack runs here; stop it first");
        let began = Instant::now();
        let jobs = match arguments.with(self.kafka.choice()).build().await? {
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

impl Lane {
    /// What it chooses among the tests.
    fn choice(self) -> &'static [&'static str] {
        match self {
            Self::Embedded => &[],
            // Those that no other broker passes are marked as ignored, those that only the embedded one
            // passes stand in files of this name. A real LiveKit has a lane of its own.
            Self::Real => &["--include-ignored", "--skip=embedded::", "--skip=livekit::"],
        }
    }
}

/// What the tests need and the environment does not name.
#[derive(Default)]
struct Needs {
    cluster: Option<Cluster>,
    /// One for each binary that runs at once: what one has its broker told, or does to it, is none of another's.
    buses: Vec<Bus>,
}

impl Needs {
    async fn prepare(&mut self, lane: Lane, at_once: u8) -> anyhow::Result<()> {
        if devkit::variable("DATABASE_URL").is_none() {
            let step = Step::start("database");
            let cluster = self.cluster.insert(Cluster::prepare(Cluster::TESTS, false, &step).await?);
            cluster.start(&step).await?;
            step.done(cluster.describe());
        }
        for number in 1..=at_once {
            self.open_bus(lane, &number.to_string()).await?;
        }
        Ok(())
    }

    async fn open_bus(&mut self, lane: Lane, name: &str) -> anyhow::Result<()> {
        let kind = match lane {
            Lane::Embedded => Kind::Embedded,
            Lane::Real => Kind::Kafka,
        };
        let step = Step::start("broker");
        let name = format!("{}-{name}", Bus::TESTS);
        kafka::forget(&name)?;
        let bus = Bus::open(kind, &name, &topics::all()?, &step).await?;
        step.done(format!("{}, {}", bus.brokers()?, bus.describe()));
        self.buses.push(bus);
        Ok(())
    }

    /// What tells others of it: for each broker.
    fn environments(&self, lane: Lane) -> anyhow::Result<Vec<HashMap<&'static str, String>>> {
        let environment = |bus: &Bus| {
            let mut variables = HashMap::from([("KAFKA_BROKERS", bus.brokers()?)]);
            if let Some(cluster) = &self.cluster {
                variables.insert("DATABASE_URL", cluster.url());
            }
            if lane == Lane::Real {
                // Tests that start a broker of their own ask for its kind.
                variables.insert("KAFKA", "real".to_owned());
            }
            Ok(variables)
        };
        self.buses.iter().map(environment).collect()
    }

    /// The story, told over a broker and a database of its own: all that the tests have left on theirs would be taken in first,
    /// and whom an earlier story has founded nobody would be told of again.
    async fn demo(&mut self, lane: Lane) -> anyhow::Result<()> {
        for bus in self.buses.drain(..) {
            bus.close().await?;
        }
        self.open_bus(lane, "demo").await?;
        let mut environment = self.environments(lane)?.swap_remove(0);
        if let Some(cluster) = &self.cluster {
            let server = postgres::connect(&cluster.url()).await?;
            server.client.batch_execute("drop database if exists demo with (force)").await?;
            server.client.batch_execute("create database demo").await?;
            let url = cluster.url();
            let (address, _) = url.rsplit_once('/').context("a URL names its database")?;
            environment.insert("DATABASE_URL", format!("{address}/demo"));
        }
        let mut demo = devkit::cargo();
        demo.args(["run", "--package", "demo", "--", "demo"]);
        demo.envs(environment).stdin(Stdio::null()).process_group(0);
        let mut child = demo.spawn()?;
        let _group = Group(child.id());
        ensure!(child.wait().await?.success(), "the demo failed");
        Ok(())
    }
}

/// Takes what was started down with the command: cargo would leave the tests running.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            children::end_group(leader);
        }
    }
}

/// What a command ends with when another one has failed.
fn code(status: ExitStatus) -> ExitCode {
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
}
