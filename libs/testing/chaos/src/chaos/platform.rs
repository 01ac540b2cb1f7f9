//! The platform under test: every service as processes, their database and their broker.

use std::time::Duration;

use anyhow::Context;
use console::style;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use testkit::broker::EmbeddedBroker;
use testkit::issuer::{Issuer, RunningIssuer};
use testkit::kafka::Cluster as Kafka;
use testkit::ports;

use super::replica::Replica;
use devkit::Settings;
use devkit::bus::Kind;
use devkit::postgres::{self, Cluster};
use devkit::progress::Step;
use devkit::{kafka, livekit};
use devstack::services::{self, ServiceEntry};

/// Workers of each service. One runs the relay; the other takes over when it fails.
const WORKERS: usize = 2;
/// Nodes of Apache Kafka. The embedded broker has one, which represents any of them.
const NODES: u16 = 3;
/// Name of the broker's data folder.
const BROKER_DATA: &str = "chaos";

pub(super) struct Platform {
    pub(super) services: Vec<ServiceEntry>,
    pub(super) issuer: RunningIssuer,
    pub(super) replicas: Vec<Replica>,
    /// Number of processes that ended by themselves.
    pub(super) ended: usize,
    pub(super) cluster: Cluster,
    broker: Broker,
    /// The node of the broker that has a fault.
    node_fault: Option<NodeFault>,
}

enum Broker {
    Embedded(EmbeddedBroker),
    Kafka(Kafka),
}

#[derive(Clone, Copy)]
enum NodeFault {
    Killed(usize),
    Frozen(usize),
}

/// A fault of the platform.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    KillReplica(usize),
    FreezeReplica(usize),
    CrashDatabase,
    /// The database crashes, and its standby, which has every commit, replaces it.
    FailOver,
    CutConnections,
    KillBroker(usize),
    FreezeBroker(usize),
}

impl Fault {
    /// Chooses a fault. The weights make processes fail more often than databases.
    pub(super) fn choose(random: &mut StdRng, replicas: usize) -> Self {
        let replica = random.random_range(0..replicas);
        let node = random.random_range(0..usize::from(NODES));
        [
            (5, Self::KillReplica(replica)),
            (5, Self::FreezeReplica(replica)),
            (1, Self::CrashDatabase),
            (1, Self::FailOver),
            (2, Self::CutConnections),
            (1, Self::KillBroker(node)),
            (1, Self::FreezeBroker(node)),
        ]
        .choose_weighted(random, |(weight, _)| *weight)
        .map_or(Self::CutConnections, |(_, fault)| fault.clone())
    }
}

impl Broker {
    async fn start(kind: Kind, topics: &[String], step: &Step) -> anyhow::Result<(Self, String)> {
        match kind {
            Kind::Embedded => {
                let broker = EmbeddedBroker::start(topics)?;
                let servers = broker.bootstrap_servers()?;
                Ok((Self::Embedded(broker), servers))
            }
            Kind::Kafka => {
                kafka::delete_data(BROKER_DATA)?;
                let cluster = kafka::start(BROKER_DATA, kafka::LOOPBACK, NODES, step).await?;
                let servers = cluster.bootstrap_servers();
                Ok((Self::Kafka(cluster), servers))
            }
        }
    }

    /// Injects a fault of a node. The only node of the embedded broker can only be down.
    async fn inject(&mut self, node_fault: NodeFault) -> anyhow::Result<()> {
        match (self, node_fault) {
            (Self::Embedded(broker), _) => Ok(broker.cluster()?.broker_down(1)?),
            (Self::Kafka(cluster), NodeFault::Killed(node)) => cluster.kill(node).await,
            (Self::Kafka(cluster), NodeFault::Frozen(node)) => cluster.freeze(node),
        }
    }

    async fn recover(&mut self, node_fault: NodeFault) -> anyhow::Result<()> {
        match (self, node_fault) {
            (Self::Embedded(broker), _) => Ok(broker.cluster()?.broker_up(1)?),
            (Self::Kafka(cluster), NodeFault::Killed(node)) => cluster.restart(node),
            (Self::Kafka(cluster), NodeFault::Frozen(node)) => cluster.thaw(node),
        }
    }
}

impl Platform {
    /// Prepares everything that need not be stopped. Dropping the platform ends the broker.
    pub(super) async fn prepare(kind: Kind) -> anyhow::Result<Self> {
        let services = services::all();
        let step = Step::start("broker");
        let (broker, brokers) = Broker::start(kind, &services::topics(&services), &step).await?;
        step.done(brokers);
        let cluster = Cluster::prepare(Cluster::CHAOS, true, &Step::start("database")).await?;
        let issuer = Issuer::start()?;
        Ok(Self { services, issuer, replicas: Vec::new(), ended: 0, cluster, broker, node_fault: None })
    }

    /// Starts the database and the services. [`Platform::stop`] stops the started parts.
    pub(super) async fn start(&mut self) -> anyhow::Result<()> {
        let step = Step::start("database");
        self.cluster.start(&step).await?;
        self.cluster.add_standby().await?;
        step.done(self.cluster.describe());
        let mut common = Settings::from([
            ("DATABASE_URL", self.cluster.url()),
            ("KAFKA_BROKERS", self.brokers()?),
            ("KAFKA_SESSION_TIMEOUT_MS", "6000".to_owned()),
            ("AUTH_ISSUER", self.issuer.url().to_owned()),
            ("GUEST_READS_PER_MINUTE", "0".to_owned()),
            // Bookings expire during the run.
            ("CRM_BOOKING_EXPIRY_INTERVAL_MS", "500".to_owned()),
            ("CRM_BOOKING_TTL_SECONDS", "2".to_owned()),
            // Unanswered and empty calls end during the run.
            ("MESSENGER_RING_SECONDS", "2".to_owned()),
            ("MESSENGER_EMPTY_SECONDS", "1".to_owned()),
            // Payouts have few lines, and sales without a rate are retried soon.
            ("AGENT_PAYOUT_MAX_LINES", "5".to_owned()),
            ("AGENT_UNRATED_POLL_SECONDS", "1".to_owned()),
        ]);
        common.extend(livekit::settings(false));
        for service in &self.services {
            let settings = service.settings(&common);
            (service.migrate)(settings.clone()).await?;
            let mut listen = settings;
            for variable in ["PUBLIC_LISTEN", "INTERNAL_LISTEN", "ADMIN_LISTEN"] {
                listen.insert(variable, format!("127.0.0.1:{}", ports::free()?));
            }
            if let Some(variable) = service.url_variable {
                common.insert(variable, format!("http://{}", listen["INTERNAL_LISTEN"]));
            }
            self.replicas.push(Replica::new(service.name, "serve", 1, listen.clone()));
            for number in 1..=WORKERS {
                listen.insert("ADMIN_LISTEN", format!("127.0.0.1:{}", ports::free()?));
                self.replicas.push(Replica::new(service.name, "work", number, listen.clone()));
            }
        }
        self.end_faults().await
    }

    pub(super) fn database_url(&self) -> String {
        self.cluster.url()
    }

    pub(super) fn brokers(&self) -> anyhow::Result<String> {
        match &self.broker {
            Broker::Embedded(broker) => broker.bootstrap_servers(),
            Broker::Kafka(cluster) => Ok(cluster.bootstrap_servers()),
        }
    }

    /// Returns the base URL of a service.
    pub(super) fn base(&self, service: &str) -> anyhow::Result<String> {
        let serves = self.replicas.iter().find(|replica| replica.serves(service));
        serves.and_then(Replica::base).with_context(|| format!("no replica serves {service}"))
    }

    /// Injects the fault unless its target has one already. Returns false if it has.
    pub(super) async fn inject(&mut self, fault: &Fault) -> anyhow::Result<bool> {
        match *fault {
            Fault::KillReplica(number) | Fault::FreezeReplica(number) => {
                let replica = &mut self.replicas[number];
                if !replica.is_running() {
                    return Ok(false);
                }
                match fault {
                    Fault::KillReplica(_) => replica.kill().await?,
                    _ => replica.freeze()?,
                }
            }
            Fault::CrashDatabase => {
                self.cluster.crash().await?;
                self.cluster.start(&Step::start("database")).await?;
            }
            Fault::FailOver => self.cluster.fail_over().await?,
            Fault::CutConnections => {
                let server = postgres::connect(&self.cluster.url()).await?;
                let others =
                    "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()";
                server.client.execute(others, &[]).await?;
            }
            Fault::KillBroker(node) | Fault::FreezeBroker(node) => {
                if self.node_fault.is_some() {
                    return Ok(false);
                }
                let node_fault = match fault {
                    Fault::KillBroker(_) => NodeFault::Killed(node),
                    _ => NodeFault::Frozen(node),
                };
                self.broker.inject(node_fault).await?;
                self.node_fault = Some(node_fault);
            }
        }
        Ok(true)
    }

    /// Ends a fault.
    pub(super) async fn recover(&mut self, fault: &Fault) -> anyhow::Result<()> {
        match *fault {
            Fault::KillReplica(number) | Fault::FreezeReplica(number) => self.replicas[number].restore(),
            Fault::KillBroker(_) | Fault::FreezeBroker(_) => self.recover_broker().await,
            Fault::CrashDatabase | Fault::FailOver | Fault::CutConnections => Ok(()),
        }
    }

    async fn recover_broker(&mut self) -> anyhow::Result<()> {
        match self.node_fault.take() {
            Some(node_fault) => self.broker.recover(node_fault).await,
            None => Ok(()),
        }
    }

    /// Kills all processes of a service.
    pub(super) async fn kill_service(&mut self, service: &str) -> anyhow::Result<()> {
        for replica in self.replicas.iter_mut().filter(|replica| replica.is_of(service)) {
            replica.kill().await?;
        }
        Ok(())
    }

    /// Runs an operator command of a service to its end.
    pub(super) async fn run(&self, service: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let replica = self.replicas.iter().find(|replica| replica.is_of(service));
        replica.with_context(|| format!("no replica of {service}"))?.run(arguments).await
    }

    /// Restarts the processes that ended by themselves, as an orchestrator does.
    pub(super) fn restart_ended(&mut self) -> anyhow::Result<()> {
        for replica in &mut self.replicas {
            if let Some(reason) = replica.restart_ended()? {
                devkit::print_line(&style(format!("{reason:#}")).red().bold().to_string());
                self.ended += 1;
            }
        }
        Ok(())
    }

    /// Ends all faults and waits until every process is ready.
    pub(super) async fn end_faults(&mut self) -> anyhow::Result<()> {
        self.recover_broker().await?;
        self.restart_ended()?;
        for replica in &mut self.replicas {
            replica.restore()?;
        }
        for replica in &self.replicas {
            replica.ready().await?;
        }
        Ok(())
    }

    pub(super) fn describe(&self, fault: &Fault, duration: Duration) -> String {
        let seconds = duration.as_secs_f32();
        match *fault {
            Fault::KillReplica(number) => {
                format!("{} is killed; back in {seconds:.1} s", self.replicas[number].name)
            }
            Fault::FreezeReplica(number) => {
                format!("{} is frozen for {seconds:.1} s", self.replicas[number].name)
            }
            Fault::CrashDatabase => "the database crashed and was restarted".to_owned(),
            Fault::FailOver => "the database crashed and its standby was promoted".to_owned(),
            Fault::CutConnections => "all connections to the database are cut".to_owned(),
            Fault::KillBroker(node) => {
                format!("node {node} of the broker is killed; back in {seconds:.1} s")
            }
            Fault::FreezeBroker(node) => format!("node {node} of the broker is frozen for {seconds:.1} s"),
        }
    }

    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        for replica in &mut self.replicas {
            replica.stop().await?;
        }
        if let Broker::Kafka(cluster) = self.broker {
            cluster.stop().await?;
        }
        self.cluster.stop_with_standby().await
    }
}
