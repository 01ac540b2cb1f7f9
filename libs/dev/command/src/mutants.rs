//! `cargo dev mutants`: changes of the code that no test catches.

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, bail, ensure};
use clap::Args;
use devkit::stack;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::needs::{Group, Lane, Needs};
use crate::test::code;

/// The longest wait of a test. A mutant makes tests wait in vain; anything else takes less time than this.
const TIMEOUT_SECONDS: &str = "10";
/// The exit code of a test program in which a test failed.
const FAILED: u8 = 101;

/// Change the code in small ways and look for changes that no test catches
///
/// Runs cargo-mutants over the rules: `src/domain` of a service, the whole of a library. Each mutant is tested by the package's
/// own tests, until the first one fails. The report lies in .dev/mutants.
#[derive(Args)]
pub(crate) struct Mutants {
    /// The package: a service, or a library
    #[arg(short, long)]
    package: String,
    /// Arguments of cargo-mutants, as in `-- --shard 1/4`
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

impl Mutants {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        Needs::during(async |needs| self.test(needs).await).await
    }

    async fn test(&self, needs: &mut Needs) -> anyhow::Result<ExitCode> {
        let folder = ["services", "libs"].map(|group| PathBuf::from(group).join(&self.package));
        let folder = folder.into_iter().find(|folder| stack::root().join(folder).is_dir());
        let folder = folder.with_context(|| format!("there is no package {}", self.package))?;
        let is_service = folder.starts_with("services");
        let files = folder.join(if is_service { "src/domain/**/*.rs" } else { "src/**/*.rs" });
        let report = stack::dev("mutants")?.join(&self.package);
        std::fs::create_dir_all(&report).with_context(|| report.display().to_string())?;
        needs.prepare(Lane::Embedded, 1).await?;
        let mut mutants = devkit::cargo();
        mutants.args(["mutants", "--package", &self.package, "--file"]).arg(files);
        mutants.arg("--output").arg(report).args(&self.arguments);
        // Unit tests first: a mutant that they catch needs no service.
        mutants.args(["--", "--lib"]).args(is_service.then_some(["--test", "it"]).into_iter().flatten());
        mutants.envs(needs.environments(Lane::Embedded)?.swap_remove(0));
        mutants.env("TEST_TIMEOUT_SECONDS", TIMEOUT_SECONDS).env(runner().await?, until_failure()?);
        let mut child =
            mutants.stdin(Stdio::null()).process_group(0).spawn().context("cargo cannot be run")?;
        let _group = Group(child.id());
        Ok(code(child.wait().await?))
    }
}

/// Returns the variable by which cargo runs test programs through another one.
async fn runner() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().await.context("rustc cannot be run")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(format!("CARGO_TARGET_{}_RUNNER", host.to_uppercase().replace('-', "_")))
}

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
        let mut child = command.spawn().with_context(|| format!("{program} cannot be run"))?;
        let _group = Group(child.id());
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        while let Some(line) = lines.next_line().await? {
            devkit::say(&line);
            if line.starts_with("test ") && line.ends_with(" ... FAILED") {
                return Ok(ExitCode::from(FAILED));
            }
        }
        Ok(code(child.wait().await?))
    }
}
