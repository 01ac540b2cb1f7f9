//! `cargo dev`: the whole platform on one machine, for trying and testing it.

mod account;
mod actors;
mod areas;
mod bench;
mod browser;
mod bus;
mod chaos;
mod charts;
mod children;
mod cluster;
mod contracts;
mod control;
mod demo;
mod docs;
mod down;
mod events;
mod feed;
mod fuzz;
mod gateway;
mod http;
mod identity;
mod kafka;
mod keycloak;
mod livekit;
mod page;
mod plant;
mod postgres;
mod processes;
mod progress;
mod running;
mod seed;
mod services;
mod signals;
mod stack;
mod status;
mod talk;
mod test;
mod trace;
mod up;
mod verify;
mod watch;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use console::style;
use runtime::Env;
use tokio::process::Command as Process;

/// That of the services, whose hot paths are measured here.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
Examples:
  cargo dev up                                 start everything; Ctrl-C stops it
  cargo dev up --fresh --port 9000             with empty data, at another address
  cargo dev demo                               see it work
  cargo dev browser                            see it work in Chromium
  cargo dev events --from-start                read the bus
  cargo dev token --employee ID                a token that says what identity says
  cargo dev seed --tenants 1000000             see how it is among many
  cargo dev stop selections                    an outage of one service; `start` ends it
  curl -H \"Authorization: Bearer $(cargo dev token anna)\" http://127.0.0.1:8080/api/v1/selections
  cargo dev test -p selections                 test one service
  cargo dev fuzz --seconds 600                 look longer for what no test knows of
  cargo dev test --kafka real                  test against a real Apache Kafka
  cargo dev chaos --seconds 60                 break everything under load, then check the books
  cargo dev chaos --events 1000000             again and again, until so many events were committed
  cargo dev verify                             see that the areas agree, and their books add up
  cargo dev watch                              see each alert told, and end
  cargo dev trace                              draw what one request sets off, as a collector was told
  cargo dev bench --quick                      see how fast it is, and against what
  cargo dev cluster --load-with 'COMMAND'      roll and break it on a real Kubernetes

DATABASE_URL and KAFKA_BROKERS, where set, name the PostgreSQL and the Kafka to use; otherwise the
stack brings its own. AGENT_DATABASE_URL gives agent a database of its own, and so for each area.
Variables of a service (`LOG=info`, say) are passed on to it. Everything that is kept lies in
.dev/ and may be deleted while nothing runs.";

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
    Up(up::Up),
    Status(status::Status),
    Stop(control::Stop),
    Start(control::Start),
    /// Stop what is running or was left behind
    Down,
    Demo(demo::Demo),
    Browser(browser::Browser),
    Token(actors::Token),
    Events(events::Events),
    Seed(seed::Seed),
    Kafka(kafka::Kafka),
    Keycloak(keycloak::Keycloak),
    Livekit(livekit::Fetch),
    Test(test::Test),
    Contracts(contracts::Contracts),
    Fuzz(fuzz::Fuzz),
    Watch(watch::Watch),
    Trace(trace::Trace),
    /// Check that what the areas of the running stack keep of each other agrees, and that their own books add up
    ///
    /// Waits for what is on its way. The rules are those of `cargo dev chaos`; what `cargo dev seed` has filled into one area
    /// alone does not keep them. Exits with 1 when something does not add up.
    Verify,
    Chaos(chaos::Chaos),
    Bench(bench::Bench),
    Cluster(cluster::Cluster),
}

fn main() -> ExitCode {
    match execute(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{} {error:#}", style("error:").red().bold().for_stderr());
            ExitCode::FAILURE
        }
    }
}

fn execute(command: Command) -> anyhow::Result<ExitCode> {
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    tokio.block_on(async {
        let done = match command {
            Command::Up(up) => logged(up.run()).await,
            Command::Demo(demo) => logged(demo.run()).await,
            Command::Browser(browser) => logged(browser.run()).await,
            Command::Status(status) => status.run(),
            Command::Stop(stop) => stop.run().await,
            Command::Start(start) => start.run().await,
            Command::Down => down::run().await,
            Command::Token(token) => token.run().await,
            Command::Events(events) => events.run().await,
            Command::Seed(seed) => seed.run().await,
            Command::Cluster(cluster) => logged(cluster.run()).await,
            Command::Contracts(contracts) => contracts.run().await,
            Command::Kafka(kafka) => kafka.run().await,
            Command::Keycloak(keycloak) => return keycloak.run().await,
            Command::Livekit(livekit) => livekit.run().await,
            Command::Test(test) => return test.run().await,
            Command::Fuzz(fuzz) => return logged(fuzz.run()).await,
            Command::Watch(watch) => return logged(watch.run()).await,
            Command::Trace(trace) => logged(trace.run()).await,
            Command::Verify => return verify::run().await,
            Command::Chaos(chaos) => return chaos.run().await,
            Command::Bench(bench) => return logged(bench.run()).await,
        };
        done.map(|()| ExitCode::SUCCESS)
    })
}

/// Runs a command that has services in its process: what goes wrong in them is for people to read.
async fn logged<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut env = Env::new(|name| {
        variable(name).or_else(|| match name {
            "LOG" => Some("warn,rustls_platform_verifier=error".to_owned()),
            "LOG_JSON" => Some("false".to_owned()),
            _ => None,
        })
    });
    let config = runtime::telemetry::Config::read(&mut env);
    let telemetry = runtime::telemetry::start("devstack", &env.finish(config)?)?;
    let result = command.await;
    telemetry.flush();
    result
}

/// A variable of the environment; an empty one counts as unset.
#[expect(
    clippy::disallowed_methods,
    reason = "a tool for many services, so it has no configuration of its own"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The cargo that runs this, in the clone that it was built from.
fn cargo() -> Process {
    let mut cargo = Process::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(stack::root());
    cargo
}

/// Prints a line; that nobody reads it any more is no reason to leave servers behind.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// A table without lines.
fn table<const N: usize>(header: [&str; N]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(
        header.map(|name| comfy_table::Cell::new(name).add_attribute(comfy_table::Attribute::Dim)),
    );
    table
}

/// 128 random bits as text: a password, a trace id.
fn random_hex() -> String {
    format!("{:032x}", rand::random::<u128>())
}
