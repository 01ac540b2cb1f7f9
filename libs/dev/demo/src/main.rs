//! `cargo dev demo`, `cargo dev browser` and `cargo dev trace`: commands that show the platform.

use std::process::ExitCode;

use ::demo::{browser, demo, trace};
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
    Demo(demo::Demo),
    Browser(browser::Browser),
    Trace(trace::Trace),
}

fn main() -> ExitCode {
    execute(async {
        match Cli::parse().command {
            Command::Demo(demo) => with_logs(demo.run()).await.map(|()| ExitCode::SUCCESS),
            Command::Browser(browser) => with_logs(browser.run()).await.map(|()| ExitCode::SUCCESS),
            Command::Trace(trace) => with_logs(trace.run()).await.map(|()| ExitCode::SUCCESS),
        }
    })
}
