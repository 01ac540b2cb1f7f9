//! `cargo dev`: the whole platform on one machine, for trying and testing it.

mod backends;
mod keycloak;
mod mutants;
mod test;
mod words;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use devkit::{control, down, events, execute, kafka, livekit, status, token};

const EXAMPLES: &str = "\
Examples:
  cargo dev up                                 start everything; Ctrl-C stops it
  cargo dev up --fresh --port 9000             with empty data, at another address
  cargo dev demo                               see it work
  cargo dev browser                            see it work in Chromium
  cargo dev events --from-start                read the bus
  cargo dev token --employee ID                a token with the permissions from identity
  cargo dev seed --tenants 1000000             fill identity with a million companies
  cargo dev stop selections                    an outage of one service; `start` ends it
  curl -H \"Authorization: Bearer $(cargo dev token anna)\" http://127.0.0.1:8080/api/v1/selections
  cargo dev test -p selections                 test one service
  cargo dev fuzz --seconds 600                 look longer for faults
  cargo dev test --kafka real                  test against a real Apache Kafka
  cargo dev chaos --seconds 60                 inject faults under load, then check the data
  cargo dev chaos --events 1000000             in rounds, until a million events are committed
  cargo dev verify                             check that the services agree and their sums add up
  cargo dev watch                              see each alert fire and end
  cargo dev trace                              draw the trace of one request
  cargo dev bench --quick                      measure the hot paths against baselines
  cargo dev cluster --load-with 'COMMAND'      roll and break a real Kubernetes deployment

DATABASE_URL and KAFKA_BROKERS name the PostgreSQL and the Kafka to use; by default the stack starts
its own. AGENT_DATABASE_URL gives agent a database of its own; other services have such a variable, too.
Variables of a service, such as `LOG=info`, are passed on. All data is in .dev/, which may be deleted
while nothing runs.";

#[derive(Parser)]
#[command(
    name = "cargo dev",
    bin_name = "cargo dev",
    about = "The whole platform on one machine: start it, see it work, test it",
    after_help = EXAMPLES
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the platform and keep it running until Ctrl-C
    #[command(disable_help_flag = true)]
    Up(Rest),
    Status(status::Status),
    Stop(control::Stop),
    Start(control::Start),
    /// Stop what is running or was left behind
    Down,
    /// Play a story over HTTP and Kafka, and check each step
    #[command(disable_help_flag = true)]
    Demo(Rest),
    /// Click through the start page in Chromium
    #[command(disable_help_flag = true)]
    Browser(Rest),
    Token(token::Token),
    Events(events::Events),
    /// Fill the running stack with many rows
    #[command(disable_help_flag = true)]
    Seed(Rest),
    Kafka(kafka::Kafka),
    Keycloak(keycloak::Keycloak),
    Livekit(livekit::Fetch),
    Test(test::Test),
    Mutants(mutants::Mutants),
    Words(words::Words),
    #[command(hide = true)]
    UntilFailure(mutants::UntilFailure),
    /// Write contracts/ and the generated pages from the code, and lint contracts/
    #[command(disable_help_flag = true)]
    Contracts(Rest),
    /// Look for faults with Schemathesis (needs Python)
    #[command(disable_help_flag = true)]
    Fuzz(Rest),
    /// Trigger each alert under a real Prometheus
    #[command(disable_help_flag = true)]
    Watch(Rest),
    /// Draw the trace of one request as a real collector received it
    #[command(disable_help_flag = true)]
    Trace(Rest),
    /// Check that the services of the running stack agree, and that their sums add up
    #[command(disable_help_flag = true)]
    Verify(Rest),
    /// Inject faults under load, then check that no event was lost
    #[command(disable_help_flag = true)]
    Chaos(Rest),
    /// Measure the hot paths, each beside the limit of this machine
    #[command(disable_help_flag = true)]
    Bench(Rest),
    /// Install the charts on a real Kubernetes, and inject faults under load
    #[command(disable_help_flag = true)]
    Cluster(Rest),
}

/// Arguments of a command of another binary.
#[derive(Args)]
struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    execute(async {
        let done = match command {
            Command::Status(status) => status.run(),
            Command::Stop(stop) => stop.run().await,
            Command::Start(start) => start.run().await,
            Command::Down => down::run().await,
            Command::Token(token) => token.run().await,
            Command::Events(events) => events.run().await,
            Command::Kafka(kafka) => kafka.run().await,
            Command::Livekit(livekit) => livekit.run().await,
            Command::Keycloak(keycloak) => return keycloak.run().await,
            Command::Test(test) => return test.run().await,
            Command::Words(words) => return words.run().await,
            Command::Mutants(mutants) => return mutants.run().await,
            Command::UntilFailure(until) => return until.run().await,
            Command::Up(rest) => rest.run("devstack", "up"),
            Command::Contracts(rest) => rest.run("devstack", "contracts"),
            Command::Demo(rest) => rest.run("demo", "demo"),
            Command::Browser(rest) => rest.run("demo", "browser"),
            Command::Trace(rest) => rest.run("demo", "trace"),
            Command::Seed(rest) => rest.run("bench", "seed"),
            Command::Bench(rest) => rest.run_optimized("bench", "bench"),
            Command::Chaos(rest) => rest.run("chaos", "chaos"),
            Command::Verify(rest) => rest.run("chaos", "verify"),
            Command::Watch(rest) => rest.run("chaos", "watch"),
            Command::Cluster(rest) => rest.run("cluster", "cluster"),
            Command::Fuzz(rest) => rest.run("fuzz", "fuzz"),
        };
        done.map(|()| ExitCode::SUCCESS)
    })
}

impl Rest {
    /// Replaces this process by `command` of another package, which cargo builds first.
    fn run(&self, package: &str, command: &str) -> anyhow::Result<()> {
        self.replace(&["--package", package, "--", command])
    }

    /// Like [`Self::run`] with a release build, since timings of a debug build are meaningless.
    fn run_optimized(&self, package: &str, command: &str) -> anyhow::Result<()> {
        self.replace(&["--release", "--package", package, "--", command])
    }

    fn replace(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let mut cargo = devkit::cargo();
        cargo.arg("run").args(arguments).args(&self.arguments);
        Err(cargo.as_std_mut().exec()).context("failed to run cargo")
    }
}
