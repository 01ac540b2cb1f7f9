//! Load generators: wrk for a service, and pgbench for its database.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::RequestBuilder;
use serde::Deserialize;
use tokio::process::Command;
use tokio::time::Instant;

use super::environment::Environment;
use super::report::{Rounds, Row, Unit};
use devkit::postgres::tools::with_apt;
use devkit::progress::Step;
use devkit::stack;

/// Returns the folder of the scripts of wrk and pgbench.
fn scripts() -> PathBuf {
    stack::root().join("libs/testing/bench/scripts")
}

/// A load of requests on a service.
#[derive(Clone, Copy)]
pub(super) struct Load<'l> {
    /// The script is `<script>.lua`.
    pub(super) script: &'l str,
    /// Arguments of the script.
    pub(super) arguments: &'l [String],
    pub(super) connections: u32,
    pub(super) seconds: u64,
    /// Maximum rate a second. Each connection waits a random time before its next request. `None`
    /// sends without waiting.
    pub(super) rate: Option<f64>,
}

/// wrk's own limit. A later response is counted, and the connection keeps waiting.
pub(super) const WRK_TIMEOUT: &str = "2 s";

/// The results of a load.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Outcome {
    seconds: f64,
    pub(super) per_second: f64,
    /// Responses with a status of 400 or more.
    pub(super) refused: u32,
    /// Requests without a response.
    pub(super) broken: u32,
    /// Requests without a response within [`WRK_TIMEOUT`].
    pub(super) late: u32,
    /// Latency percentiles of all responses, in milliseconds.
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
}

impl Load<'_> {
    /// Runs the load. Fails unless every request is answered in time and none is rejected.
    pub(super) async fn run(self, url: &str) -> anyhow::Result<Outcome> {
        let outcome = self.run_allowing_late(url).await?;
        ensure!(outcome.late == 0, "{}: {outcome:?}", self.script);
        Ok(outcome)
    }

    /// Runs the load and allows late responses.
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

/// Returns the transactions a second of `<script>.sql` in a service's schema.
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

/// Like [`pgbench`] with files of any path. Each transaction uses a random one.
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

/// Number of calls of which the p95 is taken.
const CALLS: usize = 40;

/// Returns the p95 of sequential calls, in milliseconds.
pub(super) async fn measure_p95(call: impl AsyncFn() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut took = Vec::new();
    for _ in 0..CALLS {
        let begun = Instant::now();
        call().await?;
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    Ok(took.get(CALLS * 95 / 100).unwrap_or(&Duration::ZERO).as_secs_f64() * 1e3)
}

/// Reads a response to its end. Returns the seconds and the number of bytes.
pub(super) async fn download(request: RequestBuilder) -> anyhow::Result<(f64, usize)> {
    let begun = Instant::now();
    let mut response = request.send().await?.error_for_status()?;
    let mut bytes = 0;
    while let Some(chunk) = response.chunk().await? {
        bytes += chunk.len();
    }
    Ok((begun.elapsed().as_secs_f64(), bytes))
}

/// Runs a program and returns its output.
async fn finish(command: &mut Command) -> anyhow::Result<String> {
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = output.await.with_context(|| format!("failed to run {name}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Finds wrk, or installs it.
pub(super) async fn find_wrk(step: &Step) -> anyhow::Result<()> {
    // wrk prints its version and then fails, since it has no URL.
    let is_installed = async || Command::new("wrk").arg("--version").output().await.is_ok();
    if is_installed().await {
        return Ok(());
    }
    step.note("installing wrk");
    let installed = with_apt("wrk", step).await;
    ensure!(is_installed().await, "wrk is missing: install it (apt-get install wrk, brew install wrk)");
    installed
}

/// Returns the rows of rate and latency.
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
