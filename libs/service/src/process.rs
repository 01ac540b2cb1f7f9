//! The binary of a service: its command line and its process.

use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use messaging::MessagingCommand;
use runtime::{Env, Process, telemetry};

use crate::command::{self, RegisteredCommand};
use crate::composition::{contracts, migrate, run_messaging_command, run_registered, start};
use crate::config::{Config, configure};
use crate::service::{Role, Service};

#[derive(Parser)]
#[command(
    about = "Runs a service, in both roles if no command is given. Settings are environment variables."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Answer HTTP requests
    Serve,
    /// Run the relay, the consumers and the jobs
    Work,
    /// Apply pending migrations and create missing topics, then exit
    Migrate,
    /// Print the OpenAPI and AsyncAPI documents
    Contracts,
    /// Print the environment variables that the service reads
    Config,
    #[command(flatten)]
    Messaging(MessagingCommand),
    /// A command of this service only, which is added at run time
    #[command(skip)]
    Registered(RegisteredCommand, ArgMatches),
}

/// A task for which the process reads its configuration.
enum Task {
    Run(Role),
    Migrate,
    Messaging(MessagingCommand),
    Registered(RegisteredCommand, ArgMatches),
}

/// The `main` function of a service.
pub fn main<S: Service>() -> ExitCode {
    match parse::<S>().and_then(execute::<S>) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error:#}", S::NAME);
            ExitCode::FAILURE
        }
    }
}

/// Parses the command line.
fn parse<S: Service>() -> anyhow::Result<Option<Command>> {
    let commands = S::COMMANDS.iter().map(|command| (command.define)());
    let command_line = Cli::command().subcommands(commands).get_matches();
    match command::find(S::COMMANDS, &command_line) {
        Some((command, arguments)) => Ok(Some(Command::Registered(command, arguments))),
        None => Ok(Cli::from_arg_matches(&command_line)?.command),
    }
}

fn execute<S: Service>(command: Option<Command>) -> anyhow::Result<()> {
    let task = match command {
        Some(Command::Contracts) => {
            let contracts = contracts::<S>()?;
            println!("{}---\n{}", contracts.openapi, contracts.asyncapi);
            return Ok(());
        }
        Some(Command::Config) => {
            let mut env = Env::new(|_| None);
            telemetry::Config::read(&mut env);
            configure::<S>(&mut env);
            for variable in env.variables() {
                let default = variable.default.as_deref().unwrap_or("(required)");
                println!("{:<32} {default:<28} {}", variable.name, variable.about);
            }
            return Ok(());
        }
        Some(Command::Serve) => Task::Run(Role::Serve),
        Some(Command::Work) => Task::Run(Role::Work),
        Some(Command::Migrate) => Task::Migrate,
        Some(Command::Messaging(command)) => Task::Messaging(command),
        Some(Command::Registered(command, arguments)) => Task::Registered(command, arguments),
        None => Task::Run(Role::Both),
    };
    let mut env = Env::from_process();
    let telemetry = telemetry::Config::read(&mut env);
    let config = configure::<S>(&mut env);
    let (telemetry, config) = env.finish(telemetry.zip(config))?;

    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    tokio.block_on(async {
        let telemetry = telemetry::start(S::NAME, &telemetry)?;
        let result = match task {
            Task::Run(role) => run(config, role).await,
            Task::Migrate => migrate(&config).await,
            Task::Messaging(command) => run_messaging_command(config, command).await,
            Task::Registered(command, arguments) => run_registered(config, command, arguments).await,
        };
        telemetry.flush();
        result
    })
}

async fn run<S: Service>(config: Config<S>, role: Role) -> anyhow::Result<()> {
    let process = Process::new();
    let drain = config.web.drain;
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let endpoints = start(config, role, &process).await?;
    tracing::info!(service = S::NAME, ?role, ?endpoints, "started");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
        () = process.stopping().cancelled_owned() => {}
    }
    if role.has_http() && !process.stopping().is_cancelled() {
        tracing::info!(service = S::NAME, "draining");
        process.drain();
        // A failed part or a second signal ends the drain early.
        tokio::select! {
            () = tokio::time::sleep(drain) => {}
            () = process.stopping().cancelled_owned() => {}
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
    tracing::info!(service = S::NAME, "stopping");
    process.stop();
    process.finished().await
}
