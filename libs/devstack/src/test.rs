//! `cargo dev test`: what the tests need, the whole suite as it runs, a sum at the end.

use std::collections::HashMap;
use std::io::Write;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, ensure};
use clap::Args;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::areas;
use crate::bus::{Bus, Kind};
use crate::children;
use crate::kafka;
use crate::postgres::Cluster;
use crate::progress::Step;
use crate::signals::Signals;
use crate::stack::Lock;

/// Run the tests with a database and a broker of their own
///
/// `--kafka real` runs them against a real Apache Kafka, with those that only a real one can pass and without
/// those that only the embedded one can, and then the demo. Packages and filters narrow it down as usual; of named packages there is no demo.
#[derive(Args)]
pub(crate) struct Test {
    /// The broker of the tests, where `KAFKA_BROKERS` names none; a real one needs Java 17 and Maven
    #[arg(long, value_enum, default_value = "embedded")]
    kafka: Lane,
    /// Passed on to `cargo test`, as in `-p selections snapshots -- --nocapture`
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
            result = async {
                ensure!(!self.plays_demo() || Lock::holder("up")?.is_none(), "a stack runs here; stop it first");
                needs.prepare(self.kafka).await?;
                let (counts, code) = cargo_test(self.command(), &needs).await?;
                if self.plays_demo() && code == ExitCode::SUCCESS {
                    demo(&needs).await?;
                }
                Ok((counts, code))
            } => result,
            () = signals.stop() => Err(anyhow::anyhow!("interrupted")),
        };
        if let Some(bus) = needs.bus {
            bus.close().await?;
        }
        if let Some(cluster) = needs.cluster {
            cluster.stop().await?;
        }
        drop(lock);
        let (counts, code) = result?;
        if self.kafka == Lane::Real {
            print!("real Kafka: ran, ");
        }
        let Counts { passed, failed, ignored } = counts;
        println!("{passed} tests passed, {failed} failed, {ignored} ignored");
        Ok(code)
    }

    /// Whether packages were named; then it is all about them.
    fn names_packages(&self) -> bool {
        self.arguments.iter().any(|argument| argument == "-p" || argument.starts_with("--package"))
    }

    fn plays_demo(&self) -> bool {
        self.kafka == Lane::Real && !self.names_packages()
    }

    fn command(&self) -> Command {
        let mut cargo = crate::cargo();
        cargo.args(["test", "--no-fail-fast"]);
        // Of the same packages for both brokers, or other features would be built anew.
        if !self.names_packages() {
            cargo.arg("--workspace");
        }
        let mut arguments = self.arguments.clone();
        if self.kafka == Lane::Real {
            if !arguments.iter().any(|argument| argument == "--") {
                arguments.push("--".to_owned());
            }
            // Those that no other broker passes are marked as ignored, those that only the embedded one
            // passes stand in files of this name.
            // A real LiveKit has a lane of its own.
            let chosen = ["--include-ignored", "--skip=embedded::", "--skip=livekit::"];
            arguments.extend(chosen.map(str::to_owned));
            // Tests that start a broker of their own ask for its kind.
            cargo.env("KAFKA", "real");
        }
        cargo.args(arguments);
        cargo
    }
}

/// What the tests need and the environment does not name.
#[derive(Default)]
struct Needs {
    cluster: Option<Cluster>,
    bus: Option<Bus>,
}

impl Needs {
    async fn prepare(&mut self, lane: Lane) -> anyhow::Result<()> {
        if crate::variable("DATABASE_URL").is_none() {
            let step = Step::start("database");
            let cluster = self.cluster.insert(Cluster::prepare(Cluster::TESTS, false, &step).await?);
            cluster.start(&step).await?;
            step.done(cluster.describe());
        }
        let step = Step::start("broker");
        let kind = match lane {
            Lane::Embedded => Kind::Embedded,
            Lane::Real => Kind::Kafka,
        };
        kafka::forget(Bus::TESTS)?;
        let bus = Bus::open(kind, Bus::TESTS, &areas::topics(&areas::all()), &step).await?;
        let bus = self.bus.insert(bus);
        step.done(format!("{}, {}", bus.brokers()?, bus.describe()));
        Ok(())
    }

    /// What tells others of it.
    fn variables(&self) -> anyhow::Result<HashMap<&'static str, String>> {
        let mut variables = HashMap::new();
        if let Some(cluster) = &self.cluster {
            variables.insert("DATABASE_URL", cluster.url());
        }
        if let Some(bus) = &self.bus {
            variables.insert("KAFKA_BROKERS", bus.brokers()?);
        }
        Ok(variables)
    }
}

#[derive(Default)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Counts {
    /// Adds a line like `test result: ok. 12 passed; 0 failed; 1 ignored; …`.
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else {
            return;
        };
        let words: Vec<_> = result.split_whitespace().collect();
        for pair in words.windows(2) {
            let count = pair[0].parse().unwrap_or(0);
            match pair[1] {
                "passed;" => self.passed += count,
                "failed;" => self.failed += count,
                "ignored;" => self.ignored += count,
                _ => {}
            }
        }
    }
}

/// The whole suite, whatever fails in between; in a group of its own, so that it ends as a whole.
async fn cargo_test(mut cargo: Command, needs: &Needs) -> anyhow::Result<(Counts, ExitCode)> {
    cargo.envs(needs.variables()?).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let mut child = cargo.spawn().context("cargo cannot be run")?;
    let _group = Group(child.id());
    let mut output = BufReader::new(child.stdout.take().context("no output")?);
    let (mut counts, mut line) = (Counts::default(), Vec::new());
    let mut terminal = std::io::stdout();
    while output.read_until(b'\n', &mut line).await? > 0 {
        counts.add(&String::from_utf8_lossy(&line));
        terminal.write_all(&line)?;
        terminal.flush()?;
        line.clear();
    }
    let status = child.wait().await?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok((counts, ExitCode::from(code)))
}

/// The story, told over the same broker and database.
async fn demo(needs: &Needs) -> anyhow::Result<()> {
    let mut demo = Command::new(std::env::current_exe()?);
    demo.arg("demo").envs(needs.variables()?).stdin(Stdio::null()).process_group(0);
    let mut child = demo.spawn()?;
    let _group = Group(child.id());
    ensure!(child.wait().await?.success(), "the demo failed");
    Ok(())
}

/// Takes the tests down with the command: cargo would leave them running.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            children::end_group(leader);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Counts;

    #[test]
    fn results_of_all_binaries_add_up() {
        let mut counts = Counts::default();
        counts.add(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.07s",
        );
        counts.add("test a_test_result ... ok");
        counts.add("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out");
        assert_eq!((counts.passed, counts.failed, counts.ignored), (15, 2, 1));
    }
}
