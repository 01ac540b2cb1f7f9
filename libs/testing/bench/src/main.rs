//! `cargo dev bench` measures the hot paths; `cargo dev seed` fills a running stack with rows.

mod bench;
mod bulk_data;

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
    Bench(bench::Bench),
    Seed(bulk_data::BulkData),
}

fn main() -> ExitCode {
    execute(async {
        match Cli::parse().command {
            Command::Bench(bench) => with_logs(bench.run()).await,
            Command::Seed(seed) => seed.run().await.map(|()| ExitCode::SUCCESS),
        }
    })
}
