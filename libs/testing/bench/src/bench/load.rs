//! Load: wrk at a service, and pgbench at its database with the same SQL.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;
use tokio::process::Command;
use tokio::time::Instant;

use super::environment::Environment;
use super::report::{Rounds, Row, Unit};
use devkit::postgres::tools::with_apt;
use devkit::progress::Step;
use devkit::stack;

/// Where wrk's scripts and pgbench's lie.
fn scripts() -> PathBuf {
    stack::root().join("libs/testing/bench/scripts")
}

/// Requests of a script at a service.
#[derive(Clone, Copy)]
pub(super) struct Load<'l> {
    /// `<script>.lua`, which says what is asked.
    pub(super) script: &'l str,
    /// For the script.
    pub(super) arguments: &'l [String],
    pub(super) connections: u32,
    pub(super) seconds: u64,
    /// So many requests a second at most: each connection waits, for a time of its own, before it asks again. As many as
    /// are answered otherwise.
    pub(super) rate: Option<f64>,
}

/// Who waits so long for an answer is counted, and goes on waiting: wrk's own limit.
pub(super) const WRK_TIMEOUT: &str = "2 s";

/// What became of them.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Outcome {
    seconds: f64,
    pub(super) per_second: f64,
    /// Answered with 400 or more.
    pub(super) refused: u32,
    /// Not answered.
    pub(super) broken: u32,
    /// Not answered within [`WRK_TIMEOUT`].
    pub(super) late: u32,
    /// In milliseconds, of all answers.
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
}

impl Load<'_> {
    /// Asks, and demands that every request was answered in time and none refused.
    pub(super) async fn run(self, url: &str) -> anyhow::Result<Outcome> {
        let outcome = self.run_allowing_late(url).await?;
        ensure!(outcome.late == 0, "{}: {outcome:?}", self.script);
        Ok(outcome)
    }

    /// The same of what may take long.
    pub(super) async fn run_allowing_late(self, url: &str) -> anyhow::Result<Outcome> {
        let outcome = self.run_allowing_failures(url).await?;
        ensure!(outcome.refused + outcome.broken == 0, "{}: {outcome:?}", self.script);
        Ok(outcome)
    }

    pub(super) async fn run_allowing_failures(self, url: &str) -> anyhow::Result<Outcome> {
        let wait = self.rate.map_or(0.0, |rate| f64::from(self.connections) / rate * 1e3);
        let mut wrk = Command::new("wrk");
        wrk.current_dir(scripts()).args(["--threads=1", "--latency"]);
        wrk.arg(format!("--connections={}", self.connections)).arg(format!("--duration={}s", self.seconds));
        wrk.arg(format!("--script={}.lua", self.script)).arg(url);
        wrk.arg("--").arg(wait.to_string()).args(self.arguments);
        let output = finish(&mut wrk).await?;
        let line = output.lines().find(|line| line.starts_with('{')).context("wrk reported nothing")?;
        Ok(serde_json::from_str(line)?)
    }
}

impl Outcome {
    pub(super) fn refused_per_second(&self) -> f64 {
        f64::from(self.refused) / self.seconds
    }
}

/// Transactions a second of `<script>.sql` in a service's schema, by as many connections.
pub(super) async fn pgbench(
    environment: &Environment,
    schema: &str,
    script: &str,
    variables: &[(&str, String)],
    connections: u32,
    seconds: u64,
) -> anyhow::Result<f64> {
    let script = scripts().join(format!("{script}.sql"));
    pgbench_of(environment, schema, &[script], variables, connections, seconds).await
}

/// The same of files anywhere, one of which each transaction draws.
pub(super) async fn pgbench_of(
    environment: &Environment,
    schema: &str,
    files: &[PathBuf],
    variables: &[(&str, String)],
    connections: u32,
    seconds: u64,
) -> anyhow::Result<f64> {
    let mut pgbench = Command::new(environment.program("pgbench"));
    pgbench.env("PGOPTIONS", format!("-csearch_path={schema}"));
    pgbench.args(["--no-vacuum", "--protocol=prepared", "--jobs=1"]);
    pgbench.arg(format!("--client={connections}")).arg(format!("--time={seconds}"));
    for file in files {
        pgbench.arg("--file").arg(file);
    }
    pgbench.args(variables.iter().map(|(name, value)| format!("--define={name}={value}")));
    let output = finish(pgbench.arg(environment.database_url())).await?;
    let rate = output.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    rate.context("pgbench reported nothing")
}

/// Calls of which the slowest twentieth is told.
const CALLS: usize = 40;

/// What 95 of 100 calls take at most, in milliseconds.
pub(super) async fn slowest(call: impl AsyncFn() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut took = Vec::new();
    for _ in 0..CALLS {
        let begun = Instant::now();
        call().await?;
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    Ok(took.get(CALLS * 95 / 100).unwrap_or(&Duration::ZERO).as_secs_f64() * 1e3)
}

/// What a program prints.
async fn finish(command: &mut Command) -> anyhow::Result<String> {
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = output.await.with_context(|| format!("{name} cannot be run"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Finds wrk, or has the machine's packages bring it.
pub(super) async fn find_wrk(step: &Step) -> anyhow::Result<()> {
    // It says its version and that it was called in vain.
    let there = async || Command::new("wrk").arg("--version").output().await.is_ok();
    if there().await {
        return Ok(());
    }
    step.note("installing wrk");
    let installed = with_apt("wrk", step).await;
    ensure!(there().await, "wrk is missing: install it (apt-get install wrk, brew install wrk)");
    installed
}

/// What callers wait, as the rows of a report.
pub(super) fn latencies(what: &str, outcomes: &[Outcome]) -> Vec<Row> {
    let row = |name, unit, figure: fn(&Outcome) -> f64| {
        Row::new(format!("{what}: {name}"), unit, Rounds::new(outcomes.iter().map(figure).collect()))
    };
    vec![
        row("requests/s", Unit::PerSecond, |outcome| outcome.per_second),
        row("p50", Unit::Milliseconds, |outcome| outcome.p50),
        row("p99", Unit::Milliseconds, |outcome| outcome.p99),
        row("p99.9", Unit::Milliseconds, |outcome| outcome.p999),
    ]
}
