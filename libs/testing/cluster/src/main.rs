//! `cargo dev cluster`: the charts on a real Kubernetes, under load and faults.

mod cluster;

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
    Cluster(cluster::Cluster),
}

fn main() -> ExitCode {
    execute(async {
        match Cli::parse().command {
            Command::Cluster(cluster) => with_logs(cluster.run()).await.map(|()| ExitCode::SUCCESS),
        }
    })
}
