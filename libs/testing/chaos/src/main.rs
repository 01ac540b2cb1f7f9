//! `cargo dev chaos`, `cargo dev verify` and `cargo dev watch`: commands that provoke faults and check the data after them.

use std::process::ExitCode;

use ::chaos::{alert_drill, chaos, verify};
use clap::{Parser, Subcommand};
use devkit::{execute, logged};

#[derive(Parser)]
#[command(name = "cargo dev", bin_name = "cargo dev")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Chaos(chaos::Chaos),
    /// Check that the services of the running stack agree on the data that they share, and that their own sums add up
    ///
    /// Waits for events in flight. The rules are those of `cargo dev chaos`. Data of `cargo dev seed` stands in one service alone
    /// and violates them. Exits with 1 when a rule is violated.
    Verify,
    Watch(alert_drill::AlertDrill),
}

fn main() -> ExitCode {
    execute(async {
        match Cli::parse().command {
            Command::Chaos(chaos) => chaos.run().await,
            Command::Verify => verify::run().await,
            Command::Watch(drill) => logged(drill.run()).await,
        }
    })
}
