//! `cargo dev test`: what the tests need, the whole suite as it runs, a sum at the end.

use std::io::Write;
use std::process::{ExitCode, Stdio};

use anyhow::Context;
use clap::Args;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::areas;
use crate::bus::{Bus, Kind};
use crate::children;
use crate::postgres::Cluster;
use crate::progress::Step;
use crate::signals::Signals;
use crate::stack::Lock;

/// Run the tests with a database and a broker of their own
#[derive(Args)]
pub(crate) struct Test {
    /// Passed on to `cargo test`, as in `-p selections snapshots -- --nocapture`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CARGO TEST ARGUMENTS")]
    arguments: Vec<String>,
}

impl Test {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let mut signals = Signals::listen()?;
        let lock = Lock::take("test")?;
        let mut needs = Needs::default();
        let result = tokio::select! {
            result = async {
                needs.prepare().await?;
                cargo_test(&self.arguments, &needs).await
            } => result,
            () = signals.stop() => Err(anyhow::anyhow!("interrupted")),
        };
        if let Some(cluster) = needs.cluster {
            cluster.stop().await?;
        }
        drop(lock);
        let (counts, code) = result?;
        println!("{} passed, {} failed", counts.passed, counts.failed);
        Ok(code)
    }
}

/// What the tests need and the environment does not name.
#[derive(Default)]
struct Needs {
    cluster: Option<Cluster>,
    bus: Option<Bus>,
}

impl Needs {
    async fn prepare(&mut self) -> anyhow::Result<()> {
        if crate::variable("DATABASE_URL").is_none() {
            let step = Step::start("database");
            let cluster = self.cluster.insert(Cluster::prepare(Cluster::TESTS, false, &step).await?);
            cluster.start(&step).await?;
            step.done(cluster.describe());
        }
        let step = Step::start("broker");
        let external = crate::variable("KAFKA_BROKERS");
        let topics = areas::topics(&areas::all());
        let bus = self.bus.insert(Bus::open(external, Kind::Embedded, &topics, &step).await?);
        step.done(format!("{}, {}", bus.brokers()?, bus.describe()));
        Ok(())
    }
}

#[derive(Default)]
struct Counts {
    passed: u64,
    failed: u64,
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
                _ => {}
            }
        }
    }
}

/// The whole suite, whatever fails in between; in a group of its own, so that it ends as a whole.
async fn cargo_test(arguments: &[String], needs: &Needs) -> anyhow::Result<(Counts, ExitCode)> {
    let mut cargo = crate::cargo();
    cargo.args(["test", "--no-fail-fast"]);
    if !arguments.iter().any(|argument| argument == "-p" || argument.starts_with("--package")) {
        cargo.arg("--workspace");
    }
    cargo.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    if let Some(cluster) = &needs.cluster {
        cargo.env("DATABASE_URL", cluster.url());
    }
    if let Some(bus) = &needs.bus {
        cargo.env("KAFKA_BROKERS", bus.brokers()?);
    }
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
        assert_eq!((counts.passed, counts.failed), (15, 2));
    }
}
