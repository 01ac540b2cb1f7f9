//! `cargo dev bench`: the hot paths of the platform, each beside a baseline in the same run.
//!
//! A measurement alternates with its baseline, so that other load of the machine affects both.
//! Therefore the ratio is more reliable than either figure.

mod agent;
mod bare;
mod chessboard;
mod crm;
mod edge;
mod environment;
mod feeds;
mod identity;
mod load;
mod messaging;
mod messenger;
mod news;
mod overload;
mod pages;
mod peers;
mod platform;
mod report;
mod resources;
mod selections;

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use futures_util::future::LocalBoxFuture;

use self::environment::Environment;
use self::report::{Report, Row};
use devkit::bus::Kind;
use devkit::signals::Signals;
use devkit::stack::Lock;

/// Measure the hot paths, each beside a baseline on this machine
///
/// Builds for release, and starts a PostgreSQL with durable defaults and a broker. Prints ratios
/// beside their goals, and writes the section of each bench in docs/performance.md. A missed goal
/// is shown, but is not a failure.
#[derive(Args)]
pub(crate) struct Bench {
    /// Benches to run; all by default
    names: Vec<String>,
    /// Run fewer and shorter rounds and write nothing; two to three minutes
    #[arg(long)]
    quick: bool,
    /// List the benches and exit
    #[arg(long)]
    list: bool,
    /// Also measure some operations in a server in Go; skipped if Go is missing
    #[arg(long)]
    peers: bool,
    /// Broker if `KAFKA_BROKERS` is not set
    #[arg(long, value_enum, default_value = "embedded")]
    broker: Kind,
}

/// A bench. A new one gets a file of its own and an entry in [`ALL`].
struct BenchEntry {
    name: &'static str,
    about: &'static str,
    /// Adds rows as they are measured, so that they are printed even if a later measurement fails.
    run: for<'a> fn(&'a Environment, Effort, &'a mut Vec<Row>) -> LocalBoxFuture<'a, anyhow::Result<()>>,
}

const ALL: [BenchEntry; 13] = [
    selections::BENCH,
    news::BENCH,
    identity::BENCH,
    chessboard::BENCH,
    feeds::BENCH,
    crm::BENCH,
    messenger::BENCH,
    agent::BENCH,
    pages::BENCH,
    edge::BENCH,
    messaging::BENCH,
    overload::BENCH,
    resources::BENCH,
];

/// The effort of a run.
#[derive(Clone, Copy)]
struct Effort {
    quick: bool,
}

impl Effort {
    /// Returns the number of rounds. A figure is the median of its rounds.
    fn rounds(self) -> usize {
        self.choose(5, 2)
    }

    fn choose<T>(self, thorough: T, quick: T) -> T {
        if self.quick { quick } else { thorough }
    }
}

impl Bench {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        if self.list {
            for BenchEntry { name, about, .. } in ALL {
                devkit::print_line(&format!("{name:<16}{about}"));
            }
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(name) = self.names.iter().find(|name| ALL.iter().all(|entry| entry.name != **name)) {
            bail!("there is no bench {name}; --list names them");
        }
        let mut signals = Signals::listen()?;
        let _lock = Lock::take("bench")?;
        let peer = if self.peers { peers::build().await? } else { None };
        let environment = tokio::select! {
            environment = Environment::prepare(self.broker, peer) => environment?,
            () = signals.stop() => bail!("interrupted"),
        };
        let result = tokio::select! {
            result = self.measure(&environment) => result,
            () = signals.stop() => Err(anyhow::anyhow!("interrupted")),
        };
        let closed = environment.close().await;
        result.and(closed).map(|()| ExitCode::SUCCESS)
    }

    async fn measure(&self, environment: &Environment) -> anyhow::Result<()> {
        let effort = Effort { quick: self.quick };
        for BenchEntry { name, run, .. } in ALL {
            if !self.names.is_empty() && self.names.iter().all(|wanted| wanted != name) {
                continue;
            }
            let conditions = environment.conditions().await?;
            let mut rows = Vec::new();
            let result = run(environment, effort, &mut rows).await.context(name);
            let report = Report { name, conditions, rounds: effort.rounds(), rows };
            report.print();
            result?;
            if !effort.quick {
                devkit::print_line(&format!("written to {}", report.write()?.display()));
            }
        }
        Ok(())
    }
}
