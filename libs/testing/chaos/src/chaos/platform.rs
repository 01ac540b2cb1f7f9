//! What is tortured: every service as processes of its own, their database, their broker.

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
use devstack::areas::{self, Area};

/// Workers of each service: one relays, the others wait to take over.
const WORKERS: usize = 2;
const NODES: u16 = 3;
/// Under which name the broker keeps its data.
const CHAOS: &str = "chaos";

pub(super) struct Platform {
    pub(super) areas: Vec<Area>,
    pub(super) issuer: RunningIssuer,
    pub(super) replicas: Vec<Replica>,
    /// How often one has ended although nobody has killed it.
    pub(super) ended: usize,
    cluster: Cluster,
    broker: Broker,
    /// The node that does not run as it should.
    ailing: Option<Ailment>,
}

enum Broker {
    Embedded(EmbeddedBroker),
    Kafka(Kafka),
}

#[derive(Clone, Copy)]
enum Ailment {
    Killed(usize),
    Frozen(usize),
}

/// Something that goes wrong, and for how long.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    KillReplica(usize),
    FreezeReplica(usize),
    CrashDatabase,
    CutConnections,
    KillBroker(usize),
    FreezeBroker(usize),
}

impl Trouble {
    /// What can go wrong is weighted: processes die more often than databases.
    pub(super) fn choose(random: &mut StdRng, replicas: usize) -> Self {
        let replica = random.random_range(0..replicas);
        let node = random.random_range(0..usize::from(NODES));
        [
            (5, Self::KillReplica(replica)),
            (5, Self::FreezeReplica(replica)),
            (1, Self::CrashDatabase),
            (2, Self::CutConnections),
            (1, Self::KillBroker(node)),
            (1, Self::FreezeBroker(node)),
        ]
        .choose_weighted(random, |(weight, _)| *weight)
        .map_or(Self::CutConnections, |(_, trouble)| trouble.clone())
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
                kafka::forget(CHAOS)?;
                let cluster = kafka::start(CHAOS, kafka::LOOPBACK, NODES, step).await?;
                let servers = cluster.bootstrap_servers();
                Ok((Self::Kafka(cluster), servers))
            }
        }
    }

    /// The embedded one has one node, which can only be away.
    async fn suffer(&mut self, ailment: Ailment) -> anyhow::Result<()> {
        match (self, ailment) {
            (Self::Embedded(broker), _) => Ok(broker.cluster()?.broker_down(1)?),
            (Self::Kafka(cluster), Ailment::Killed(node)) => cluster.kill(node).await,
            (Self::Kafka(cluster), Ailment::Frozen(node)) => cluster.freeze(node),
        }
    }

    async fn recover(&mut self, ailment: Ailment) -> anyhow::Result<()> {
        match (self, ailment) {
            (Self::Embedded(broker), _) => Ok(broker.cluster()?.broker_up(1)?),
            (Self::Kafka(cluster), Ailment::Killed(node)) => cluster.restart(node),
            (Self::Kafka(cluster), Ailment::Frozen(node)) => cluster.thaw(node),
        }
    }
}

impl Platform {
    /// All but what has to be stopped: the broker goes when it is dropped.
    pub(super) async fn prepare(kind: Kind) -> anyhow::Result<Self> {
        let areas = areas::all();
        let step = Step::start("broker");
        let (broker, brokers) = Broker::start(kind, &areas::topics(&areas), &step).await?;
        step.done(brokers);
        let cluster = Cluster::prepare(Cluster::CHAOS, true, &Step::start("database")).await?;
        let issuer = Issuer::start()?;
        Ok(Self { areas, issuer, replicas: Vec::new(), ended: 0, cluster, broker, ailing: None })
    }

    /// Starts the database and the services; [`Platform::stop`] stops what has come of it.
    pub(super) async fn start(&mut self) -> anyhow::Result<()> {
        let step = Step::start("database");
        self.cluster.start(&step).await?;
        step.done(self.cluster.describe());
        let mut common = Settings::from([
            ("DATABASE_URL", self.cluster.url()),
            ("KAFKA_BROKERS", self.brokers()?),
            ("KAFKA_SESSION_TIMEOUT_MS", "6000".to_owned()),
            ("AUTH_ISSUER", self.issuer.url().to_owned()),
            ("GUEST_READS_PER_MINUTE", "0".to_owned()),
            // Bookings expire while things break.
            ("CRM_BOOKING_EXPIRY_INTERVAL_MS", "500".to_owned()),
            ("CRM_BOOKING_TTL_SECONDS", "2".to_owned()),
            // And calls that nobody answers, or that all have left.
            ("MESSENGER_RING_SECONDS", "2".to_owned()),
            ("MESSENGER_EMPTY_SECONDS", "1".to_owned()),
            // And what agents have earned is paid a few sales at a time, once there is a rate.
            ("AGENT_PAYOUT_MAX_LINES", "5".to_owned()),
            ("AGENT_UNRATED_POLL_SECONDS", "1".to_owned()),
        ]);
        common.extend(livekit::settings(false));
        for area in &self.areas {
            let settings = area.settings(&common);
            (area.migrate)(settings.clone()).await?;
            let mut listen = settings;
            for variable in ["PUBLIC_LISTEN", "INTERNAL_LISTEN", "ADMIN_LISTEN"] {
                listen.insert(variable, format!("127.0.0.1:{}", ports::free()?));
            }
            if let Some(variable) = area.url_variable {
                common.insert(variable, format!("http://{}", listen["INTERNAL_LISTEN"]));
            }
            self.replicas.push(Replica::new(area.name, "serve", 1, listen.clone()));
            for number in 1..=WORKERS {
                listen.insert("ADMIN_LISTEN", format!("127.0.0.1:{}", ports::free()?));
                self.replicas.push(Replica::new(area.name, "work", number, listen.clone()));
            }
        }
        self.heal().await
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

    /// Where people find a service.
    pub(super) fn base(&self, area: &str) -> anyhow::Result<String> {
        let serves = self.replicas.iter().find(|replica| replica.serves(area));
        serves.and_then(Replica::base).with_context(|| format!("nobody serves {area}"))
    }

    /// Brings the trouble, unless its victim suffers already; says whether it did.
    pub(super) async fn suffer(&mut self, trouble: &Trouble) -> anyhow::Result<bool> {
        match *trouble {
            Trouble::KillReplica(number) | Trouble::FreezeReplica(number) => {
                let replica = &mut self.replicas[number];
                if !replica.is_well() {
                    return Ok(false);
                }
                match trouble {
                    Trouble::KillReplica(_) => replica.kill().await?,
                    _ => replica.freeze()?,
                }
            }
            Trouble::CrashDatabase => {
                self.cluster.crash().await?;
                self.cluster.start(&Step::start("database")).await?;
            }
            Trouble::CutConnections => {
                let server = postgres::connect(&self.cluster.url()).await?;
                let others =
                    "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()";
                server.client.execute(others, &[]).await?;
            }
            Trouble::KillBroker(node) | Trouble::FreezeBroker(node) => {
                if self.ailing.is_some() {
                    return Ok(false);
                }
                let ailment = match trouble {
                    Trouble::KillBroker(_) => Ailment::Killed(node),
                    _ => Ailment::Frozen(node),
                };
                self.broker.suffer(ailment).await?;
                self.ailing = Some(ailment);
            }
        }
        Ok(true)
    }

    /// Ends the trouble of a victim.
    pub(super) async fn recover(&mut self, trouble: &Trouble) -> anyhow::Result<()> {
        match *trouble {
            Trouble::KillReplica(number) | Trouble::FreezeReplica(number) => self.replicas[number].heal(),
            Trouble::KillBroker(_) | Trouble::FreezeBroker(_) => self.recover_broker().await,
            Trouble::CrashDatabase | Trouble::CutConnections => Ok(()),
        }
    }

    async fn recover_broker(&mut self) -> anyhow::Result<()> {
        match self.ailing.take() {
            Some(ailment) => self.broker.recover(ailment).await,
            None => Ok(()),
        }
    }

    /// Starts those again that have ended by themselves, as an orchestrator would.
    pub(super) fn revive(&mut self) -> anyhow::Result<()> {
        for replica in &mut self.replicas {
            if let Some(reason) = replica.revive()? {
                devkit::say(&style(format!("{reason:#}")).red().bold().to_string());
                self.ended += 1;
            }
        }
        Ok(())
    }

    /// Ends all troubles and waits until every process is ready.
    pub(super) async fn heal(&mut self) -> anyhow::Result<()> {
        self.recover_broker().await?;
        self.revive()?;
        for replica in &mut self.replicas {
            replica.heal()?;
        }
        for replica in &self.replicas {
            replica.ready().await?;
        }
        Ok(())
    }

    pub(super) fn describe(&self, trouble: &Trouble, duration: Duration) -> String {
        let seconds = duration.as_secs_f32();
        match *trouble {
            Trouble::KillReplica(number) => {
                format!("{} is killed; back in {seconds:.1} s", self.replicas[number].name)
            }
            Trouble::FreezeReplica(number) => {
                format!("{} is frozen for {seconds:.1} s", self.replicas[number].name)
            }
            Trouble::CrashDatabase => "the database has crashed and was started again".to_owned(),
            Trouble::CutConnections => "all connections to the database are cut".to_owned(),
            Trouble::KillBroker(node) => {
                format!("node {node} of the broker is killed; back in {seconds:.1} s")
            }
            Trouble::FreezeBroker(node) => format!("node {node} of the broker is frozen for {seconds:.1} s"),
        }
    }

    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        for replica in &mut self.replicas {
            replica.stop().await?;
        }
        if let Broker::Kafka(cluster) = self.broker {
            cluster.stop().await?;
        }
        self.cluster.stop().await?;
        Ok(())
    }
}
