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

/// The brokers that a run of the tests uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Lane {
    /// Every test on embedded brokers.
    Embedded,
    /// The tests that a broker can change, on Apache Kafka.
    Real,
    /// Each test once: on Apache Kafka where a broker can change it, else on an embedded broker.
    Both,
}

/// The environment of the programs that share a broker.
pub(crate) struct Environment {
    pub(crate) broker: Kind,
    pub(crate) variables: HashMap<&'static str, String>,
}

/// The database and the brokers of the tests.
#[derive(Default)]
pub(crate) struct Needs {
    cluster: Option<Cluster>,
    /// One for each binary that runs at once, since tests fill their broker and break it.
    buses: Vec<(Kind, Bus)>,
}

impl Needs {
    /// Runs a command that may start them, and stops them when it has ended or was interrupted.
    /// Only one such command runs at a time.
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
        for (_, bus) in self.buses {
            bus.close().await?;
        }
        match self.cluster {
            Some(cluster) => cluster.stop().await.map(drop),
            None => Ok(()),
        }
    }

    /// Starts what the environment does not name: a database, and a broker for each parallel
    /// program.
    pub(crate) async fn prepare(&mut self, brokers: &[Kind]) -> anyhow::Result<()> {
        if devkit::variable("DATABASE_URL").is_none() {
            let step = Step::start("database");
            let cluster = self.cluster.insert(Cluster::prepare(Cluster::TESTS, false, &step).await?);
            cluster.start(&step).await?;
            step.done(cluster.describe());
        }
        for (number, broker) in brokers.iter().enumerate() {
            self.open_bus(*broker, &(number + 1).to_string()).await?;
        }
        Ok(())
    }

    async fn open_bus(&mut self, broker: Kind, name: &str) -> anyhow::Result<()> {
        let step = Step::start("broker");
        let name = format!("{}-{name}", Bus::TESTS);
        kafka::forget(&name)?;
        let bus = Bus::open(broker, &name, &topics::all()?, &step).await?;
        step.done(format!("{}, {}", bus.brokers()?, bus.describe()));
        self.buses.push((broker, bus));
        Ok(())
    }

    /// Returns the environment of the programs of each broker.
    pub(crate) fn environments(&self) -> anyhow::Result<Vec<Environment>> {
        let environment = |(broker, bus): &(Kind, Bus)| {
            let mut variables = HashMap::from([("KAFKA_BROKERS", bus.brokers()?)]);
            if let Some(cluster) = &self.cluster {
                variables.insert("DATABASE_URL", cluster.url());
            }
            if *broker == Kind::Kafka {
                // Tests that start brokers of their own read the kind from here.
                variables.insert("KAFKA", "real".to_owned());
            }
            Ok(Environment { broker: *broker, variables })
        };
        self.buses.iter().map(environment).collect()
    }

    /// Plays the demo on Apache Kafka with a new broker and a new database. On those of the tests,
    /// it would first consume all their events.
    pub(crate) async fn demo(&mut self) -> anyhow::Result<()> {
        for (_, bus) in self.buses.drain(..) {
            bus.close().await?;
        }
        self.open_bus(Kind::Kafka, "demo").await?;
        let mut environment = self.environments()?.swap_remove(0).variables;
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

/// A process group that ends with this command. Otherwise cargo would leave its tests running.
pub(crate) struct Group(pub(crate) Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            children::end_group(leader);
        }
    }
}
