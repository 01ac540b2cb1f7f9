//! `cargo dev chaos`, `cargo dev verify` and `cargo dev watch`: fault injection and checks of the
//! data.

use std::process::ExitCode;

use ::chaos::{alert_drill, chaos, verify};
use clap::{Parser, Subcommand};
use devkit::{execute, with_logs};

#[derive(Parser)]
#[command(name = "cargo dev", bin_name = "cargo dev")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Chaos(chaos::Chaos),
    /// Check that the services of the running stack agree, and that their sums add up
    ///
    /// Waits for events in flight. The rules are those of `cargo dev chaos`. Data of `cargo dev
    /// seed` is in one service only and violates them. Exits with 1 if a rule is violated.
    Verify,
    Watch(alert_drill::AlertDrill),
}

fn main() -> ExitCode {
    execute(async {
        match Cli::parse().command {
            Command::Chaos(chaos) => chaos.run().await,
            Command::Verify => verify::run().await,
            Command::Watch(drill) => with_logs(drill.run()).await,
        }
    })
}
