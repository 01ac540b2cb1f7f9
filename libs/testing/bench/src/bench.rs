//! `cargo dev bench`: the hot paths of the platform, each beside the limit of this machine in the same run.
//!
//! What is measured alternates with what it is measured against, so that whatever else the machine does
//! falls on both, and the ratio of neighbours says more than either figure.

mod agent;
mod bare;
mod chessboard;
mod crm;
mod edge;
mod environment;
mod identity;
mod load;
mod messaging;
mod messenger;
mod news;
mod overload;
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

/// Measure the hot paths, each beside the limit of this machine
///
/// Builds for release, brings a PostgreSQL with its durable defaults and a broker, prints ratios beside
/// their goals, and writes the section of each bench in docs/performance.md. A goal that is missed is
/// shown as missed and is no failure.
#[derive(Args)]
pub(crate) struct Bench {
    /// Which to run; all of them without a name
    names: Vec<String>,
    /// A first answer in two to three minutes: fewer and shorter rounds, nothing written
    #[arg(long)]
    quick: bool,
    /// Only say which there are
    #[arg(long)]
    list: bool,
    /// The broker, where `KAFKA_BROKERS` names none
    #[arg(long, value_enum, default_value = "embedded")]
    broker: Kind,
}

/// A bench. The next service's goes into a file of its own and into [`ALL`].
struct BenchEntry {
    name: &'static str,
    about: &'static str,
    /// Adds what it measures as it comes, so that it is told even if what follows fails.
    run: for<'a> fn(&'a Environment, Effort, &'a mut Vec<Row>) -> LocalBoxFuture<'a, anyhow::Result<()>>,
}

const ALL: [BenchEntry; 11] = [
    selections::BENCH,
    news::BENCH,
    identity::BENCH,
    chessboard::BENCH,
    crm::BENCH,
    messenger::BENCH,
    agent::BENCH,
    edge::BENCH,
    messaging::BENCH,
    overload::BENCH,
    resources::BENCH,
];

/// How much is measured.
#[derive(Clone, Copy)]
struct Effort {
    quick: bool,
}

impl Effort {
    /// Medians are of so many.
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
                devkit::say(&format!("{name:<16}{about}"));
            }
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(name) = self.names.iter().find(|name| ALL.iter().all(|entry| entry.name != **name)) {
            bail!("there is no bench {name}; --list names them");
        }
        let mut signals = Signals::listen()?;
        let _lock = Lock::take("bench")?;
        let environment = tokio::select! {
            environment = Environment::prepare(self.broker) => environment?,
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
                devkit::say(&format!("written to {}", report.write()?.display()));
            }
        }
        Ok(())
    }
}
