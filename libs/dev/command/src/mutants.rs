//! `cargo dev mutants`: changes of the code that no test catches.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{Context, bail, ensure};
use clap::Args;
use devkit::bus::Kind;
use devkit::stack;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::backends::{Backends, Group};
use crate::test::code;

/// Longest wait of a test, in seconds. A mutant makes tests wait for an event that never happens.
const TIMEOUT_SECONDS: &str = "10";
/// The exit code of a test program in which a test failed.
const FAILED: u8 = 101;
/// The exit codes of cargo-mutants when tests missed mutants, or waited too long for some.
const MUTANTS_LEFT: [i32; 2] = [2, 3];
/// The lowest share of viable mutants that the tests must catch.
const MIN_PERCENT: usize = 90;

/// Change the code in small ways and look for changes that no test catches
///
/// Runs cargo-mutants over `src/domain` of a service, or over all of a library. Unit tests run
/// first. The service's own tests then run against the mutants that are left, until the first one
/// fails. The report is in .dev/mutants. Exits with 1 if the tests catch fewer than 90 %.
#[derive(Args)]
pub(crate) struct Mutants {
    /// The package: a service, or a library
    #[arg(short, long)]
    package: String,
    /// Arguments of cargo-mutants, as in `-- --file services/crm/src/domain/rules.rs`
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

impl Mutants {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        Backends::run_command(async |backends| self.test(backends).await).await
    }

    async fn test(&self, backends: &mut Backends) -> anyhow::Result<ExitCode> {
        let folder = ["services", "libs"].map(|group| PathBuf::from(group).join(&self.package));
        let folder = folder.into_iter().find(|folder| stack::root().join(folder).is_dir());
        let folder = folder.with_context(|| format!("there is no package {}", self.package))?;
        let is_service = folder.starts_with("services");
        let report = stack::dev_path("mutants")?.join(&self.package);
        std::fs::create_dir_all(&report).with_context(|| report.display().to_string())?;
        backends.prepare(&[Kind::Embedded]).await?;

        // Unit tests share nothing, so two mutants are tested at once.
        self.run_pass(backends, &folder, &report, &["--jobs", "2"], &["--lib"]).await?;
        let mut score = Score::read(&report, &Score::default())?;
        if is_service && !score.has_caught_all() {
            // `--iterate` skips the mutants that the unit tests have caught.
            self.run_pass(backends, &folder, &report, &["--iterate"], &["--test", "it"]).await?;
            score = Score::read(&report, &score)?;
        }
        ensure!(score.viable() > 0, "no viable mutant was found");
        println!("{}: {score}", self.package);
        Ok(if score.percent() >= MIN_PERCENT { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Tests each mutant with these tests and writes the report.
    async fn run_pass(
        &self,
        backends: &Backends,
        folder: &Path,
        report: &Path,
        options: &[&str],
        tests: &[&str],
    ) -> anyhow::Result<()> {
        let files = if folder.starts_with("services") { "src/domain/**/*.rs" } else { "src/**/*.rs" };
        let mut mutants = devkit::cargo();
        mutants.args(["mutants", "--package", &self.package]).args(options);
        if !self.arguments.iter().any(|argument| argument == "--file" || argument == "-f") {
            mutants.arg("--file").arg(folder.join(files));
        }
        mutants.arg("--output").arg(report).args(&self.arguments).arg("--").args(tests);
        mutants.envs(backends.environments()?.swap_remove(0).variables);
        mutants.env("TEST_TIMEOUT_SECONDS", TIMEOUT_SECONDS).env(runner_variable().await?, until_failure()?);
        // Each mutant is compiled and linked once, so debug information only costs time.
        mutants.env("CARGO_PROFILE_DEV_DEBUG", "0");
        let mut child =
            mutants.stdin(Stdio::null()).process_group(0).spawn().context("failed to run cargo")?;
        let _group = Group(child.id());
        let code = child.wait().await?.code().context("cargo-mutants was killed")?;
        ensure!(code == 0 || MUTANTS_LEFT.contains(&code), "cargo-mutants failed with exit code {code}");
        Ok(())
    }
}

/// The mutants of a package by their result.
#[derive(Default)]
struct Score {
    caught: usize,
    /// Mutants that made the tests exceed their time limit. They count as caught in the score.
    timeouts: usize,
    missed: Vec<String>,
}

impl Score {
    /// Reads the report of a pass, which tested only the mutants that the pass `before` had not
    /// caught.
    fn read(report: &Path, before: &Self) -> anyhow::Result<Self> {
        let lines = |name: &str| -> anyhow::Result<Vec<String>> {
            let path = report.join("mutants.out").join(name);
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            Ok(text.lines().map(str::to_owned).collect())
        };
        let caught = before.caught + lines("caught.txt")?.len();
        Ok(Self { caught, timeouts: lines("timeout.txt")?.len(), missed: lines("missed.txt")? })
    }
}

impl Score {
    /// Returns true if a further pass has nothing to test. A pass repeats mutants with a timeout.
    fn has_caught_all(&self) -> bool {
        self.missed.is_empty() && self.timeouts == 0
    }

    fn viable(&self) -> usize {
        self.caught + self.timeouts + self.missed.len()
    }

    /// Returns the share of the viable mutants that a test has caught.
    fn percent(&self) -> usize {
        ((self.caught + self.timeouts) * 100).checked_div(self.viable()).unwrap_or(100)
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (caught, viable) = (self.caught + self.timeouts, self.viable());
        write!(f, "{caught} of {viable} viable mutants caught, {} %", self.percent())?;
        self.missed.iter().try_for_each(|mutant| write!(f, "\nmissed {mutant}"))
    }
}

/// Returns the name of the variable by which cargo runs test programs through another program.
async fn runner_variable() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().await.context("failed to run rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("`rustc -vV` has no line `host`")?;
    Ok(format!("CARGO_TARGET_{}_RUNNER", host.to_uppercase().replace('-', "_")))
}

/// Returns the command of [`UntilFailure`], as the value of that variable.
fn until_failure() -> anyhow::Result<String> {
    let own = std::env::current_exe()?;
    let own = own.to_str().context("the path of this program is no text")?;
    ensure!(!own.contains(' '), "cargo splits the path of its runner at spaces: {own}");
    Ok(format!("{own} until-failure"))
}

/// Runs a test program and ends it when its first test has failed.
#[derive(Args)]
pub(crate) struct UntilFailure {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<String>,
}

impl UntilFailure {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let [program, arguments @ ..] = &self.command[..] else { bail!("no program was named") };
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().with_context(|| format!("failed to run {program}"))?;
        let _group = Group(child.id());
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        while let Some(line) = lines.next_line().await? {
            devkit::print_line(&line);
            if line.starts_with("test ") && line.ends_with(" ... FAILED") {
                return Ok(ExitCode::from(FAILED));
            }
        }
        Ok(code(child.wait().await?))
    }
}
