//! `cargo dev fuzz`: Schemathesis against every service, on a stack of its own.

mod known_ids;

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use testkit::issuer::{CLIENTS, Claims};
use tokio::process::Command;

use devkit::Settings;
use devkit::actors::{self, ANNA, Actor, GALINA, IGOR, MARIA, OLGA};
use devkit::bus::Kind;
use devkit::children::Child;
use devkit::identity::Identity;
use devkit::postgres::Cluster;
use devkit::progress::Step;
use devkit::signals::Signals;
use devkit::stack::{self, Stack};
use devstack::running::Running;
use devstack::up::Up;

use crate::parsers;

const VERSION: &str = "4.32.5";
/// Time beyond a run's share, for reading the document and printing the report.
const TIMEOUT_MARGIN: Duration = Duration::from_mins(1);

/// Look for faults with Schemathesis: the documents against the behaviour of the services
///
/// Every operation of every service is called with valid and invalid requests, as actors of the
/// demo and as each machine client. Faults are 5xx responses, undocumented responses, accepted
/// invalid requests and the like. Each is printed with a `curl` command that repeats it. Installs
/// Schemathesis into .dev/ (needs Python). Exit code 1 if there was a fault.
///
/// With --parsers, runs libFuzzer against the parsers of bodies, headers, files and texts instead.
#[derive(Args)]
pub(crate) struct Fuzz {
    /// Time of all runs together, in seconds
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(10..))]
    seconds: u64,
    /// Seed of an earlier run, to repeat it
    #[arg(long)]
    seed: Option<u128>,
    /// Fuzz the parsers (needs a C++ compiler)
    #[arg(long, conflicts_with_all = ["seconds", "seed"])]
    parsers: bool,
    /// Time of each parser, in minutes
    #[arg(long, default_value_t = 10, requires = "parsers", value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
}

/// A run against one document as one caller.
struct Run {
    name: String,
    url: String,
    token: String,
}

impl Fuzz {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        if self.parsers {
            return parsers::run(Duration::from_mins(self.minutes)).await;
        }
        let mut signals = Signals::listen()?;
        let mut running = Running::new()?;
        let schemathesis = install().await?;
        let options = Up {
            port: 0,
            // An earlier run may have dismissed employees of the demo.
            fresh: true,
            no_seed: false,
            broker: Kind::Embedded,
            processes: false,
            media: false,
            cluster: Cluster::FUZZ,
            settings: Settings::new(),
        };
        let started = tokio::select! {
            started = running.start(&options) => started,
            () = signals.stop() => Err(anyhow::anyhow!("interrupted")),
        };
        let result = match started {
            Ok(stack) => tokio::select! {
                result = self.fuzz(&schemathesis, &stack) => result,
                error = running.serve_control() => Err(error),
                () = signals.stop() => Err(anyhow::anyhow!("interrupted")),
            },
            Err(error) => Err(error),
        };
        let stopped = running.stop().await;
        let faulty = result?;
        stopped?;
        if faulty.is_empty() {
            devkit::print_line("no faults were found");
            return Ok(ExitCode::SUCCESS);
        }
        devkit::print_line(&format!("faults were found in: {}", faulty.join(", ")));
        Ok(ExitCode::FAILURE)
    }

    /// Returns the names of the runs with faults.
    async fn fuzz(&self, schemathesis: &PathBuf, stack: &Stack) -> anyhow::Result<Vec<String>> {
        known_ids::create(stack).await?;
        let runs = runs(stack).await?;
        let share = Duration::from_secs(self.seconds) / u32::try_from(runs.len())?;
        let settings = stack::root().join("libs/testing/fuzz/settings");
        let mut faulty = Vec::new();
        for run in runs {
            devkit::print_line(&format!("\n{}", console::style(&run.name).bold()));
            let mut command = Command::new(schemathesis);
            command.arg("--config-file").arg(settings.join("schemathesis.toml"));
            command.env("SCHEMATHESIS_HOOKS", settings.join("hooks.py")).env("PYTHONDONTWRITEBYTECODE", "1");
            command.args(["run", &format!("{}/openapi.json", run.url)]);
            command.args(["--header", &format!("Authorization: Bearer {}", run.token)]);
            command.args(["--max-time", &share.as_secs().max(1).to_string()]);
            if let Some(seed) = self.seed {
                command.args(["--seed", &seed.to_string()]);
            }
            let mut child = command
                .stdin(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .context("failed to run Schemathesis")?;
            let ended = tokio::time::timeout(share + TIMEOUT_MARGIN, child.wait()).await;
            let status =
                ended.with_context(|| format!("{}: Schemathesis did not end in time", run.name))??;
            ensure!(matches!(status.code(), Some(0 | 1)), "{}: Schemathesis ended ({status})", run.name);
            if !status.success() {
                faulty.push(run.name);
            }
        }
        Ok(faulty)
    }
}

/// Returns the runs: each service as people, and its internal port as each machine client.
async fn runs(stack: &Stack) -> anyhow::Result<Vec<Run>> {
    let (issuer, identity) = (actors::issuer(stack)?, Identity::of(stack)?);
    let mut runs = Vec::new();
    for (service, urls) in &stack.services {
        let mut run = |caller: &str, url: &str, token| {
            runs.push(Run {
                name: format!("{service} as {caller}"),
                url: format!("{url}/docs/{service}"),
                token,
            });
        };
        // The people with the most permissions there.
        let people: &[Actor] = match service.as_str() {
            "identity" => &[OLGA],
            "chessboard" | "crm" => &[MARIA, OLGA],
            "agent" => &[IGOR, GALINA, OLGA],
            _ => &[ANNA],
        };
        for person in people {
            run(person.name, &urls.public_url, identity.token(person).await?);
        }
        for (client, _) in CLIENTS {
            if let Some(url) = &urls.internal_url {
                run(client, url, issuer.token(&Claims::client(client))?);
            }
        }
    }
    Ok(runs)
}

/// Returns the program, installed into a Python environment of this clone.
async fn install() -> anyhow::Result<PathBuf> {
    let folder = stack::dev_path(&format!("schemathesis-{VERSION}"))?;
    let program = folder.join("bin/schemathesis");
    if program.exists() {
        return Ok(program);
    }
    let step = Step::start("schemathesis");
    step.note("installing");
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(&folder);
    let hint =
        "Python 3.10 or later with its venv module is needed (on Debian: apt-get install python3-venv)";
    Child::run("python-venv", &mut venv).await.context(hint)?;
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip.arg(format!("schemathesis=={VERSION}"));
    Child::run("pip", &mut pip).await.context("failed to install Schemathesis")?;
    step.done(folder.display());
    Ok(program)
}
