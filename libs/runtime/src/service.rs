//! A deployable service and its entry point.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{Env, Process, telemetry};

/// What a running replica does. Ops scale the two apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Answers HTTP.
    Serve,
    /// Relays the outbox, consumes the bus, runs jobs.
    Work,
    /// Both: one small process.
    Both,
}

impl Role {
    pub fn serves(self) -> bool {
        matches!(self, Self::Serve | Self::Both)
    }

    pub fn works(self) -> bool {
        matches!(self, Self::Work | Self::Both)
    }
}

/// Where a started service listens. `None`: not in this role.
#[derive(Clone, Copy, Debug)]
pub struct Endpoints {
    pub public: Option<SocketAddr>,
    pub internal: Option<SocketAddr>,
    pub admin: SocketAddr,
}

/// What a service promises, as YAML documents.
pub struct Contracts {
    pub openapi: String,
    pub asyncapi: String,
}

/// A service as its own binary, the local stack and the tests see it.
pub trait Service: 'static {
    const NAME: &'static str;
    type Config: Send + 'static;
    /// What its operators may do beside running it, as commands of its binary.
    type Operation: clap::Subcommand;

    /// Reads the configuration; `None` after a mistake, which [`Env`] remembers.
    fn configure(env: &mut Env) -> Option<Self::Config>;

    /// Brings the service's schema up to date and makes its topics. Safe to run from several replicas at once.
    fn migrate(config: &Self::Config) -> impl Future<Output = anyhow::Result<()>>;

    /// Starts the parts of the role on `process` and answers once they listen.
    fn start(
        config: Self::Config,
        role: Role,
        process: &Process,
    ) -> impl Future<Output = anyhow::Result<Endpoints>>;

    /// Does an operator's command; what it has to say goes to standard output.
    fn operate(config: Self::Config, operation: Self::Operation) -> impl Future<Output = anyhow::Result<()>>;

    /// Every topic that the service publishes to, consumes, or puts dead letters into.
    fn topics() -> Vec<String>;

    /// The documents that `contracts/` holds.
    ///
    /// # Errors
    /// When they cannot be written.
    fn contracts() -> anyhow::Result<Contracts>;
}

#[derive(Parser)]
#[command(about = "Without a role: serve and work together. Configuration comes from the environment.")]
struct Cli<O: Subcommand> {
    #[command(subcommand)]
    command: Option<Command<O>>,
}

#[derive(Subcommand)]
enum Command<O: Subcommand> {
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
    Operation(O),
}

/// What a process is started for, once it is configured.
enum Task<O> {
    Run(Role),
    Migrate,
    Operate(O),
}

/// The whole of a service's `main`.
pub fn main<S: Service>() -> ExitCode {
    let cli = Cli::<S::Operation>::parse();
    match execute::<S>(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error:#}", S::NAME);
            ExitCode::FAILURE
        }
    }
}

fn execute<S: Service>(command: Option<Command<S::Operation>>) -> anyhow::Result<()> {
    let task = match command {
        Some(Command::Contracts { folder: None }) => {
            let contracts = S::contracts()?;
            println!("{}---\n{}", contracts.openapi, contracts.asyncapi);
            return Ok(());
        }
        Some(Command::Contracts { folder: Some(folder) }) => {
            let contracts = S::contracts()?;
            let document = format!("{}.yaml", S::NAME);
            std::fs::write(folder.join("openapi").join(&document), contracts.openapi)?;
            std::fs::write(folder.join("asyncapi").join(&document), contracts.asyncapi)?;
            return Ok(());
        }
        Some(Command::Config) => {
            let mut env = Env::new(|_| None);
            telemetry::Config::read(&mut env);
            S::configure(&mut env);
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
        None => Task::Run(Role::Both),
    };
    let mut env = Env::from_process();
    let telemetry = telemetry::Config::read(&mut env);
    let config = S::configure(&mut env);
    let (telemetry, config) = env.finish(telemetry.zip(config))?;

    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    tokio.block_on(async {
        let telemetry = telemetry::start(S::NAME, &telemetry)?;
        let result = match task {
            Task::Run(role) => run::<S>(config, role).await,
            Task::Migrate => S::migrate(&config).await,
            Task::Operate(operation) => S::operate(config, operation).await,
        };
        telemetry.flush();
        result
    })
}

async fn run<S: Service>(config: S::Config, role: Role) -> anyhow::Result<()> {
    let process = Process::new();
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let endpoints = S::start(config, role, &process).await?;
    tracing::info!(service = S::NAME, ?role, ?endpoints, "started");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
        () = process.stopping().cancelled_owned() => {}
    }
    tracing::info!(service = S::NAME, "stopping");
    process.stop();
    process.finished().await
}
