//! The base of every `cargo dev` command: files under `.dev/`, child processes, PostgreSQL, the
//! broker, tokens and the running stack.
//!
//! The crate links no service, so that a change of a service does not rebuild it.

pub mod account;
pub mod actors;
pub mod bus;
pub mod children;
pub mod control;
pub mod docs;
pub mod down;
pub mod events;
pub mod files;
pub mod http;
pub mod identity;
pub mod kafka;
pub mod livekit;
pub mod postgres;
pub mod progress;
pub mod signals;
pub mod stack;
pub mod status;
pub mod token;
pub mod topics;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use console::style;
use runtime::Env;
use tokio::process::Command;

/// The services of the platform, in alphabetical order.
pub const SERVICES: [&str; 7] = ["agent", "chessboard", "crm", "identity", "messenger", "news", "selections"];

/// Environment variables of a service. They take precedence over those of this process.
pub type Settings = BTreeMap<&'static str, String>;

/// Runs a command on a runtime of its own. Prints a failure, and returns the exit code.
pub fn execute(command: impl Future<Output = anyhow::Result<ExitCode>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(command)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{} {error:#}", style("error:").red().bold().for_stderr());
            ExitCode::FAILURE
        }
    }
}

/// Runs a command that has services in its process, and writes their logs as plain text.
pub async fn with_logs<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
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

/// Returns an environment variable, or `None` if it is unset or empty.
#[expect(
    clippy::disallowed_methods,
    reason = "a tool for many services, so it has no configuration of its own"
)]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns a command of the cargo that runs this process, in this clone.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(stack::root());
    cargo
}

/// Prints a line. A closed standard output is no error, since servers must still be stopped.
pub fn print_line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Returns a table without rules between its rows.
pub fn table<const N: usize>(header: [&str; N]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(
        header.map(|name| comfy_table::Cell::new(name).add_attribute(comfy_table::Attribute::Dim)),
    );
    table
}

/// Returns 128 random bits as text: a password, a trace id.
pub fn random_hex() -> String {
    format!("{:032x}", rand::random::<u128>())
}
