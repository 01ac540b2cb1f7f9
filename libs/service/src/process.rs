//! A service's binary: its commands, and its life as a process.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use messaging::Operation;
use runtime::{Env, Process, telemetry};

use crate::command::told;
use crate::composition::execute_own;
use crate::{Config, OwnCommand, Role, Service, configure, contracts, migrate, operate, start};

#[derive(Parser)]
#[command(about = "Without a role: serve and work together. Configuration comes from the environment.")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Answer HTTP
    Serve,
    /// Relay the outbox, consume the bus, run jobs
    Work,
    /// Bring the schema up to date and make missing topics, then exit
    Migrate,
    /// Print the OpenAPI and AsyncAPI documents, or write them below a folder
    Contracts { folder: Option<PathBuf> },
    /// Print the environment variables that the service reads
    Config,
    #[command(flatten)]
    Operation(Operation),
    /// The service's own, which the parser learns of when it runs
    #[command(skip)]
    Own(OwnCommand, ArgMatches),
}

/// What a process is started for, once it is configured.
enum Task {
    Run(Role),
    Migrate,
    Operate(Operation),
    Own(OwnCommand, ArgMatches),
}

/// The whole of a service's `main`.
pub fn main<S: Service>() -> ExitCode {
    match command::<S>().and_then(execute::<S>) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error:#}", S::NAME);
            ExitCode::FAILURE
        }
    }
}

/// What the process was told to do.
fn command<S: Service>() -> anyhow::Result<Option<Command>> {
    let own = S::COMMANDS.iter().map(|own| (own.define)());
    let arguments = Cli::command().subcommands(own).get_matches();
    match told::<S>(&arguments) {
        Some((own, told)) => Ok(Some(Command::Own(own, told))),
        None => Ok(Cli::from_arg_matches(&arguments)?.command),
    }
}

fn execute<S: Service>(command: Option<Command>) -> anyhow::Result<()> {
    let task = match command {
        Some(Command::Contracts { folder: None }) => {
            let contracts = contracts::<S>()?;
            println!("{}---\n{}", contracts.openapi, contracts.asyncapi);
            return Ok(());
        }
        Some(Command::Contracts { folder: Some(folder) }) => {
            let contracts = contracts::<S>()?;
            let document = format!("{}.yaml", S::NAME);
            std::fs::write(folder.join("openapi").join(&document), contracts.openapi)?;
            std::fs::write(folder.join("asyncapi").join(&document), contracts.asyncapi)?;
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
        Some(Command::Operation(operation)) => Task::Operate(operation),
        Some(Command::Own(own, arguments)) => Task::Own(own, arguments),
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
            Task::Operate(operation) => operate(config, operation).await,
            Task::Own(own, arguments) => execute_own(config, own, arguments).await,
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
    if role.serves() && !process.stopping().is_cancelled() {
        tracing::info!(service = S::NAME, "draining");
        process.drain();
        // What fails in the meantime ends it, and so does whoever cannot wait.
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
