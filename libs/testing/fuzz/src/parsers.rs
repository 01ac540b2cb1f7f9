//! `cargo dev fuzz --parsers`: libFuzzer against the parsers of callers' bytes.

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use fuzz_parsers::{TARGETS, Target};
use tokio::process::Command;

use devkit::children::Child;
use devkit::progress::Step;
use devkit::stack;

const VERSION: &str = "0.13.2";

/// The package with the targets and the stored inputs.
const FOLDER: &str = "libs/testing/fuzz-parsers";

/// Options of each libFuzzer. An input that takes seconds or hundreds of megabytes is a finding.
const LIMITS: [&str; 3] = ["-timeout=5", "-rss_limit_mb=512", "-print_final_stats=1"];

/// Number of lines of a log that are printed after a finding. They have the panic and the input.
const LAST_LINES: usize = 60;

/// Variables of the build. Further optimization would make the build longer than the runs.
const BUILD: [(&str, &str); 2] =
    [("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")];

/// Runs each target for `time`. Prints a table, and returns 1 if there was a finding.
pub(crate) async fn run(time: Duration) -> anyhow::Result<ExitCode> {
    let program = install().await?;
    let step = Step::start("parsers");
    step.note("building");
    Child::run("fuzz-build", &mut cargo_fuzz(&program, "build")).await?;
    step.done(FOLDER);
    let mut table = devkit::table(["target", "executions", "per second", "coverage", "MiB", "finding"]);
    let mut found = false;
    for target in &TARGETS {
        let step = Step::start(target.name);
        let run = fuzz(&program, target, time).await?;
        step.done(run.finding.as_deref().unwrap_or("no finding"));
        found |= run.finding.is_some();
        let finding = run.finding.unwrap_or_default();
        table.add_row([target.name, &run.executions, &run.rate, &run.coverage, &run.peak_mib, &finding]);
    }
    devkit::print_line(&table.to_string());
    Ok(if found { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The result of a run, as libFuzzer prints it.
struct Run {
    executions: String,
    rate: String,
    /// Number of branches that an input has reached.
    coverage: String,
    peak_mib: String,
    /// The file with the input that failed.
    finding: Option<String>,
}

impl Run {
    fn read(log: &str, has_failed: bool) -> Self {
        let after = |marker: &str| {
            let text = log.rsplit_once(marker).map(|(_, text)| text)?;
            text.split_whitespace().next().map(str::to_owned)
        };
        let number = |marker: &str| after(marker).unwrap_or_default();
        Self {
            executions: number("stat::number_of_executed_units:"),
            rate: number("stat::average_exec_per_sec:"),
            coverage: number("cov:"),
            peak_mib: number("stat::peak_rss_mb:"),
            finding: has_failed
                .then(|| after("Test unit written to").unwrap_or_else(|| "unknown".to_owned())),
        }
    }
}

/// Runs a target. New inputs go into `.dev/`, so that the stored ones stay as they are.
async fn fuzz(program: &Path, target: &Target, time: Duration) -> anyhow::Result<Run> {
    let found = stack::dev_path("fuzz")?.join(target.name);
    std::fs::create_dir_all(&found).with_context(|| found.display().to_string())?;
    let mut command = cargo_fuzz(program, "run");
    command.arg(target.name).arg(found).arg(format!("{FOLDER}/corpus/{}", target.name)).arg("--");
    command.arg(format!("-max_len={}", target.max_bytes));
    command.arg(format!("-max_total_time={}", time.as_secs())).args(LIMITS);
    let output = command.output().await.context("failed to run cargo-fuzz")?;
    let log = String::from_utf8_lossy(&output.stderr);
    let folder = stack::dev_path("logs")?;
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("fuzz-{}.log", target.name));
    std::fs::write(&path, log.as_bytes()).with_context(|| path.display().to_string())?;
    let run = Run::read(&log, !output.status.success());
    ensure!(!run.executions.is_empty(), "{}: libFuzzer did not run, see {}", target.name, path.display());
    if run.finding.is_some() {
        let lines: Vec<_> = log.lines().collect();
        devkit::print_line(&lines[lines.len().saturating_sub(LAST_LINES)..].join("\n"));
    }
    Ok(run)
}

/// Returns a command of cargo-fuzz without a sanitizer.
///
/// The workspace forbids unsafe code, so a sanitizer would only slow the targets down and need a
/// nightly compiler.
fn cargo_fuzz(program: &Path, subcommand: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["fuzz", subcommand, "--sanitizer", "none", "--fuzz-dir", FOLDER]);
    command.current_dir(stack::root()).envs(BUILD).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Returns the program, installed for this clone.
async fn install() -> anyhow::Result<PathBuf> {
    let folder = stack::dev_path(&format!("cargo-fuzz-{VERSION}"))?;
    let program = folder.join("bin/cargo-fuzz");
    if program.exists() {
        return Ok(program);
    }
    let step = Step::start("cargo-fuzz");
    step.note("installing");
    let mut cargo = devkit::cargo();
    cargo.args(["install", "--quiet", "--locked", "--root"]).arg(&folder);
    cargo.arg(format!("cargo-fuzz@{VERSION}"));
    Child::run("cargo-fuzz", &mut cargo).await.context("failed to install cargo-fuzz")?;
    step.done(folder.display());
    Ok(program)
}
