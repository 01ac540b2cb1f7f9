//! The environment of the benches: a durable PostgreSQL, a broker and the description of the
//! machine.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, ensure};
use messaging::topics::Topics;
use rdkafka::ClientConfig;
use runtime::{Env, Process};
use serde_json::json;
use tokio::process::Command;

use devkit::bus::{Bus, Kind};
use devkit::kafka;
use devkit::postgres::{self, Cluster, Connection};
use devkit::progress::Step;
use devstack::services;

/// The number of partitions: more than one, so that messages of several partitions are in flight.
const PARTITIONS: i32 = 4;
/// Name of the data folder of the benches' Apache Kafka.
const KAFKA: &str = "bench";

pub(super) struct Environment {
    cluster: Cluster,
    bus: Bus,
    /// The program of the peer in Go, if it is measured too.
    peer: Option<PathBuf>,
    /// The processes that benches have started.
    processes: Mutex<Vec<Process>>,
}

impl Environment {
    pub(super) async fn prepare(broker: Kind, peer: Option<PathBuf>) -> anyhow::Result<Self> {
        let step = Step::start("database");
        let mut cluster = Cluster::prepare(Cluster::BENCH, true, &step).await?;
        cluster.start(&step).await?;
        step.done(cluster.describe());
        let step = Step::start("broker");
        kafka::delete_data(KAFKA)?;
        let bus = match Bus::open(broker, KAFKA, &services::topics(&services::all()), &step).await {
            Ok(bus) => bus,
            Err(error) => {
                cluster.stop().await?;
                return Err(error);
            }
        };
        step.done(bus.describe());
        Ok(Self { cluster, bus, peer, processes: Mutex::default() })
    }

    /// Stops everything, first the processes of an interrupted bench.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        for process in self.processes.into_inner().unwrap_or_else(PoisonError::into_inner) {
            stop(&process).await?;
        }
        let closed = self.bus.close().await;
        self.cluster.stop().await?;
        closed
    }

    pub(super) fn database_url(&self) -> String {
        self.cluster.url()
    }

    pub(super) fn brokers(&self) -> anyhow::Result<String> {
        self.bus.brokers()
    }

    /// Returns the program of the peer in Go, if it is measured too.
    pub(super) fn peer(&self) -> Option<&Path> {
        self.peer.as_deref()
    }

    /// Returns the path of a program of PostgreSQL.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.cluster.program(name)
    }

    /// Returns the path of the database's log.
    pub(super) fn log(&self) -> PathBuf {
        self.cluster.log()
    }

    /// Returns a process for the parts of a service.
    pub(super) fn process(&self) -> Process {
        let process = Process::new();
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).push(process.clone());
        process
    }

    /// Returns the environment of a service.
    pub(super) fn env(&self) -> anyhow::Result<Env> {
        let (database, brokers) = (self.cluster.url(), self.bus.brokers()?);
        Ok(Env::new(move |name| match name {
            "DATABASE_URL" => Some(database.clone()),
            "KAFKA_BROKERS" => Some(brokers.clone()),
            // The embedded broker admits a new member only after the session of the previous one
            // has expired.
            "KAFKA_SESSION_TIMEOUT_MS" => Some("6000".to_owned()),
            _ => None,
        }))
    }

    /// Returns a connection that sees the tables of `schema`.
    pub(super) async fn connect(&self, schema: &str) -> anyhow::Result<Connection> {
        postgres::connect(&format!("{}?options=-csearch_path%3D{schema}", self.cluster.url())).await
    }

    /// Creates topics that no service has.
    pub(super) async fn make_topics(&self, names: &[&str]) -> anyhow::Result<()> {
        let shape = json!({"partitions": PARTITIONS, "retention_days": 1});
        let topics: Vec<_> = names
            .iter()
            .map(|name| json!({"name": name, "owner": "bench", "key": "any", "partitions": PARTITIONS, "retention_days": 1}))
            .collect();
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        if let Bus::Embedded(broker) = &self.bus {
            return names.iter().try_for_each(|name| broker.create_topic(name));
        }
        let declared: Topics = serde_json::from_value(json!({"dead_letters": shape, "topics": topics}))?;
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", self.bus.brokers()?);
        let outcome = declared.create_missing(&client, &names).await?;
        ensure!(outcome.failed.is_empty(), "{}", outcome.failed.join("; "));
        Ok(())
    }

    /// Returns the conditions of the figures: date, machine and versions.
    pub(super) async fn conditions(&self) -> anyhow::Result<String> {
        let admin = postgres::connect(&self.cluster.url()).await?;
        let postgres: String = admin.client.query_one("show server_version", &[]).await?.get(0);
        let postgres = postgres.split(' ').next().unwrap_or_default().to_owned();
        let broker = match &self.bus {
            Bus::External(_) => "an external broker",
            Bus::Embedded(_) => "the embedded broker",
            Bus::Kafka(_) => "Apache Kafka of one node",
        };
        let rustc = Command::new("rustc").arg("--version").output().await.context("failed to run rustc")?;
        let rustc = String::from_utf8_lossy(&rustc.stdout).split(' ').nth(1).unwrap_or_default().to_owned();
        let (_, librdkafka) = rdkafka::util::get_rdkafka_version();
        let cores = std::thread::available_parallelism()?;
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().map_or_else(String::new, |load| format!(", load {load} before"));
        Ok(format!(
            "{date}; {os}/{arch}, {cores} cores{load}; Rust {rustc}, PostgreSQL {postgres} with durable defaults, \
             librdkafka {librdkafka}, {broker}.",
            date = runtime::clock::now().date(),
            os = std::env::consts::OS,
            arch = std::env::consts::ARCH,
        ))
    }
}

/// Stops a service and waits for its parts.
pub(super) async fn stop(process: &Process) -> anyhow::Result<()> {
    process.stop();
    process.finished().await
}
