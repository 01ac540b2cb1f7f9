//! The database and the brokers of the tests, and the environment that names them.

use std::collections::HashMap;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, ensure};
use devkit::bus::{Bus, Kind};
use devkit::postgres::{self, Cluster};
use devkit::progress::Step;
use devkit::signals::Signals;
use devkit::stack::Lock;
use devkit::{children, kafka, topics};

/// The broker of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Lane {
    Embedded,
    Real,
}

impl Lane {
    /// Returns the options by which it chooses among the tests.
    pub(crate) fn choice(self) -> &'static [&'static str] {
        match self {
            Self::Embedded => &[],
            // Those that no other broker passes are marked as ignored, those that only the embedded one
            // passes stand in files of this name. A real LiveKit has a lane of its own.
            Self::Real => &["--include-ignored", "--skip=embedded::", "--skip=livekit::"],
        }
    }
}

/// The database and the brokers of the tests.
#[derive(Default)]
pub(crate) struct Needs {
    cluster: Option<Cluster>,
    /// One for each binary that runs at once, since tests fill their broker and break it.
    buses: Vec<Bus>,
}

impl Needs {
    /// Runs a command that may start them, and stops them when it has ended or was interrupted. One such command runs at a time.
    pub(crate) async fn during(
        command: impl AsyncFnOnce(&mut Self) -> anyhow::Result<ExitCode>,
    ) -> anyhow::Result<ExitCode> {
        let mut signals = Signals::listen()?;
        let _lock = Lock::take("test")?;
        let mut needs = Self::default();
        let result = tokio::select! {
            result = command(&mut needs) => result,
            () = signals.stop() => Err(anyhow::anyhow!("interrupted")),
        };
        needs.close().await?;
        result
    }

    async fn close(self) -> anyhow::Result<()> {
        for bus in self.buses {
            bus.close().await?;
        }
        match self.cluster {
            Some(cluster) => cluster.stop().await.map(drop),
            None => Ok(()),
        }
    }

    /// Starts what the environment does not name, with a broker for each program that runs at once.
    pub(crate) async fn prepare(&mut self, lane: Lane, at_once: u8) -> anyhow::Result<()> {
        if devkit::variable("DATABASE_URL").is_none() {
            let step = Step::start("database");
            let cluster = self.cluster.insert(Cluster::prepare(Cluster::TESTS, false, &step).await?);
            cluster.start(&step).await?;
            step.done(cluster.describe());
        }
        for number in 1..=at_once {
            self.open_bus(lane, &number.to_string()).await?;
        }
        Ok(())
    }

    async fn open_bus(&mut self, lane: Lane, name: &str) -> anyhow::Result<()> {
        let kind = match lane {
            Lane::Embedded => Kind::Embedded,
            Lane::Real => Kind::Kafka,
        };
        let step = Step::start("broker");
        let name = format!("{}-{name}", Bus::TESTS);
        kafka::forget(&name)?;
        let bus = Bus::open(kind, &name, &topics::all()?, &step).await?;
        step.done(format!("{}, {}", bus.brokers()?, bus.describe()));
        self.buses.push(bus);
        Ok(())
    }

    /// Returns the environment of the programs of each broker.
    pub(crate) fn environments(&self, lane: Lane) -> anyhow::Result<Vec<HashMap<&'static str, String>>> {
        let environment = |bus: &Bus| {
            let mut variables = HashMap::from([("KAFKA_BROKERS", bus.brokers()?)]);
            if let Some(cluster) = &self.cluster {
                variables.insert("DATABASE_URL", cluster.url());
            }
            if lane == Lane::Real {
                // Tests that start a broker of their own ask for its kind.
                variables.insert("KAFKA", "real".to_owned());
            }
            Ok(variables)
        };
        self.buses.iter().map(environment).collect()
    }

    /// Plays the demo with a new broker and a new database: on those of the tests it would first consume all their events.
    pub(crate) async fn demo(&mut self, lane: Lane) -> anyhow::Result<()> {
        for bus in self.buses.drain(..) {
            bus.close().await?;
        }
        self.open_bus(lane, "demo").await?;
        let mut environment = self.environments(lane)?.swap_remove(0);
        if let Some(cluster) = &self.cluster {
            let server = postgres::connect(&cluster.url()).await?;
            server.client.batch_execute("drop database if exists demo with (force)").await?;
            server.client.batch_execute("create database demo").await?;
            let url = cluster.url();
            let (address, _) = url.rsplit_once('/').context("a URL names its database")?;
            environment.insert("DATABASE_URL", format!("{address}/demo"));
        }
        let mut demo = devkit::cargo();
        demo.args(["run", "--package", "demo", "--", "demo"]);
        demo.envs(environment).stdin(Stdio::null()).process_group(0);
        let mut child = demo.spawn()?;
        let _group = Group(child.id());
        ensure!(child.wait().await?.success(), "the demo failed");
        Ok(())
    }
}

/// A group of processes that ends with this command: cargo would leave its tests running.
pub(crate) struct Group(pub(crate) Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            children::end_group(leader);
        }
    }
}
