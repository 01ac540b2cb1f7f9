//! `cargo dev up` and `cargo dev contracts`: the commands that need the services themselves.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use devkit::{execute, with_logs};
use devstack::{contracts::Contracts, up::Up};

#[derive(Parser)]
#[command(name = "cargo dev", bin_name = "cargo dev")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(Up),
    Contracts(Contracts),
}

fn main() -> ExitCode {
    execute(async {
        match Cli::parse().command {
            Command::Up(up) => with_logs(up.run()).await.map(|()| ExitCode::SUCCESS),
            Command::Contracts(contracts) => contracts.run().await.map(|()| ExitCode::SUCCESS),
        }
    })
}
