//! `cargo dev fuzz`: Schemathesis against every service, or libFuzzer against the parsers.

mod fuzz;
mod parsers;

use std::process::ExitCode;

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
    Fuzz(fuzz::Fuzz),
}

fn main() -> ExitCode {
    execute(async {
        match Cli::parse().command {
            Command::Fuzz(fuzz) => with_logs(fuzz.run()).await,
        }
    })
}
