//! The database and the brokers of the tests, and the environment that names them.

use std::collections::HashMap;
use std::process::ExitCode;

use anyhow::Context;
use devkit::bus::{Bus, Kind};
use devkit::postgres::{self, Cluster};
use devkit::progress::Step;
use devkit::signals::Signals;
use devkit::stack::Lock;
use devkit::{children, kafka, topics};
use tokio::process::Command;

/// The brokers that a run of the tests uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Lane {
    /// Every test on embedded brokers.
    Embedded,
    /// The tests whose result can depend on the broker, on Apache Kafka.
    Real,
    /// Each test once: on Apache Kafka if its result can depend on the broker, else on an embedded
    /// broker.
    Both,
}

/// The environment of the programs that share a broker.
pub(crate) struct Environment {
    pub(crate) broker: Kind,
    pub(crate) variables: HashMap<&'static str, String>,
}

/// The database and the brokers of the tests.
#[derive(Default)]
pub(crate) struct Backends {
    cluster: Option<Cluster>,
    /// A broker for each test binary that runs concurrently, since tests fill and break their
    /// broker.
    buses: Vec<(Kind, Bus)>,
    /// The broker of the demo. On a broker of the tests, the demo would first consume all their
    /// events.
    demo_bus: Option<Bus>,
}

impl Backends {
    /// Runs `command`, which may start backends. Stops the backends when `command` ends or is
    /// interrupted. A clone runs only one such command at a time.
    pub(crate) async fn run_command(
        command: impl AsyncFnOnce(&mut Self) -> anyhow::Result<ExitCode>,
    ) -> anyhow::Result<ExitCode> {
        let mut signals = Signals::listen()?;
        let _lock = Lock::take("test")?;
        let mut backends = Self::default();
        let result = tokio::select! {
            result = command(&mut backends) => result,
            () = signals.stop() => Err(anyhow::anyhow!("interrupted")),
        };
        backends.close().await?;
        result
    }

    async fn close(self) -> anyhow::Result<()> {
        for bus in self.buses.into_iter().map(|(_, bus)| bus).chain(self.demo_bus) {
            bus.close().await?;
        }
        match self.cluster {
            Some(cluster) => cluster.stop().await.map(drop),
            None => Ok(()),
        }
    }

    /// Starts a database, and a broker for each parallel program, unless the environment names
    /// them.
    pub(crate) async fn prepare(&mut self, brokers: &[Kind]) -> anyhow::Result<()> {
        if devkit::variable("DATABASE_URL").is_none() {
            let step = Step::start("database");
            let cluster = self.cluster.insert(Cluster::prepare(Cluster::TESTS, false, &step).await?);
            cluster.start(&step).await?;
            step.done(cluster.describe());
        }
        for (number, broker) in brokers.iter().enumerate() {
            let bus = Self::open_bus(*broker, &(number + 1).to_string()).await?;
            self.buses.push((*broker, bus));
        }
        Ok(())
    }

    async fn open_bus(broker: Kind, name: &str) -> anyhow::Result<Bus> {
        let step = Step::start("broker");
        let name = format!("{}-{name}", Bus::TESTS);
        kafka::delete_data(&name)?;
        let bus = Bus::open(broker, &name, &topics::all()?, &step).await?;
        step.done(format!("{}, {}", bus.brokers()?, bus.describe()));
        Ok(bus)
    }

    /// Returns the environment of the programs of each broker.
    pub(crate) fn environments(&self) -> anyhow::Result<Vec<Environment>> {
        let environment = |(broker, bus): &(Kind, Bus)| {
            Ok(Environment { broker: *broker, variables: self.variables(*broker, bus)? })
        };
        self.buses.iter().map(environment).collect()
    }

    fn variables(&self, broker: Kind, bus: &Bus) -> anyhow::Result<HashMap<&'static str, String>> {
        let mut variables = HashMap::from([("KAFKA_BROKERS", bus.brokers()?)]);
        if let Some(cluster) = &self.cluster {
            variables.insert("DATABASE_URL", cluster.url());
        }
        if broker == Kind::Kafka {
            // Tests that start brokers of their own read the kind from here.
            variables.insert("KAFKA", "real".to_owned());
        }
        Ok(variables)
    }

    /// Starts Apache Kafka and creates a database for the demo, and returns the demo's command.
    pub(crate) async fn demo(&mut self) -> anyhow::Result<Command> {
        let bus = Self::open_bus(Kind::Kafka, "demo").await?;
        let mut variables = self.variables(Kind::Kafka, &bus)?;
        self.demo_bus = Some(bus);
        if let Some(cluster) = &self.cluster {
            let server = postgres::connect(&cluster.url()).await?;
            server.client.batch_execute("drop database if exists demo with (force)").await?;
            server.client.batch_execute("create database demo").await?;
            let url = cluster.url();
            let (address, _) = url.rsplit_once('/').context("a URL names its database")?;
            variables.insert("DATABASE_URL", format!("{address}/demo"));
        }
        let mut demo = devkit::cargo();
        demo.args(["run", "--package", "demo", "--", "demo"]).envs(variables);
        Ok(demo)
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
