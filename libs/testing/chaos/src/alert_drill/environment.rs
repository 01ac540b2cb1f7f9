//! The environment of the drill: two services as processes, a database, a broker, and requests.

use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use testkit::broker::EmbeddedBroker;
use testkit::bus::Bus;
use testkit::issuer::{Claims, Issuer, RunningIssuer};
use testkit::ports;
use testkit::signals::Signal;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::sleep;
use uuid::Uuid;

use devkit::Settings;
use devkit::children::Child;
use devkit::http;
use devkit::postgres::{self, Cluster, Connection};
use devkit::progress::Step;
use devstack::processes;
use devstack::services::{self, ServiceEntry};

/// The processes of a service. One of the two workers relays.
const ROLES: [&str; 3] = ["serve", "work", "work"];
/// A path that reads the table `accrual` on a connection of the pool.
const PATH: &str = "/api/v1/my/commission-accruals";
/// The number of concurrent requests. It exceeds the 64 waiters that four connections admit.
const CONCURRENT_REQUESTS: usize = 120;

pub(super) struct Environment {
    services: Vec<ServiceEntry>,
    issuer: RunningIssuer,
    cluster: Cluster,
    broker: EmbeddedBroker,
    bus: &'static Bus,
    processes: Vec<Process>,
    /// The connection that holds a lock during a fault.
    pub(super) lock_connection: Option<Connection>,
    /// The concurrent requests of the current fault, and its repeated lock.
    pub(super) requests: JoinSet<()>,
    /// The id of the entity that the current fault concerns.
    pub(super) subject: Uuid,
    sequence: i64,
}

struct Process {
    service: &'static str,
    role: &'static str,
    settings: Settings,
    child: Option<Child>,
}

impl Process {
    fn start(&mut self, number: usize) -> anyhow::Result<()> {
        let mut command = Command::new(processes::folder()?.join(self.service));
        command.arg(self.role).envs(&self.settings);
        self.child =
            Some(Child::spawn(format!("watch-{}-{}-{number}", self.service, self.role), &mut command)?);
        Ok(())
    }

    fn admin(&self) -> anyhow::Result<String> {
        self.settings.get("ADMIN_LISTEN").cloned().context("no admin port")
    }
}

impl Environment {
    /// Prepares everything that need not be stopped.
    pub(super) async fn prepare(services: Vec<ServiceEntry>) -> anyhow::Result<Self> {
        let topics = services::topics(&services);
        let broker = EmbeddedBroker::start(&topics)?;
        let bus = Box::leak(Box::new(Bus::connect(&broker.bootstrap_servers()?, &topics)?));
        let cluster = Cluster::prepare(Cluster::ALERT_DRILL, true, &Step::start("database")).await?;
        let (issuer, requests) = (Issuer::start()?, JoinSet::new());
        let (processes, lock_connection, subject) = (Vec::new(), None, Uuid::nil());
        Ok(Self {
            services,
            issuer,
            cluster,
            broker,
            bus,
            processes,
            lock_connection,
            requests,
            subject,
            sequence: 0,
        })
    }

    pub(super) async fn start(&mut self) -> anyhow::Result<()> {
        let step = Step::start("database");
        self.cluster.start(&step).await?;
        step.done(self.cluster.describe());
        let step = Step::start("services");
        for service in self.services.clone() {
            let settings = service.settings(&Settings::from([
                ("DATABASE_URL", self.cluster.url()),
                ("DATABASE_POOL_SIZE", "4".to_owned()),
                ("KAFKA_BROKERS", self.broker.bootstrap_servers()?),
                ("KAFKA_SESSION_TIMEOUT_MS", "6000".to_owned()),
                ("AUTH_ISSUER", self.issuer.url().to_owned()),
                // Short intervals of periodic jobs.
                ("AGENT_LEDGER_AUDIT_SECONDS", "1".to_owned()),
                ("AGENT_UNRATED_POLL_SECONDS", "1".to_owned()),
            ]));
            (service.migrate)(settings.clone()).await?;
            for role in ROLES {
                let mut settings = settings.clone();
                for variable in ["PUBLIC_LISTEN", "INTERNAL_LISTEN", "ADMIN_LISTEN"] {
                    settings.insert(variable, format!("127.0.0.1:{}", ports::free()?));
                }
                self.processes.push(Process { service: service.name, role, settings, child: None });
            }
        }
        self.start_processes().await?;
        step.done(format!("{} processes", self.processes.len()));
        Ok(())
    }

    /// Returns the addresses that Prometheus scrapes.
    pub(super) fn targets(&self) -> anyhow::Result<Vec<(&'static str, String)>> {
        self.processes.iter().map(|process| Ok((process.service, process.admin()?))).collect()
    }

    /// Starts the processes that do not run.
    pub(super) async fn start_processes(&mut self) -> anyhow::Result<()> {
        let missing = self.processes.iter_mut().enumerate().filter(|(_, process)| process.child.is_none());
        for (number, process) in missing {
            process.start(number)?;
        }
        for process in &self.processes {
            processes::ready(process.admin()?.parse()?).await?;
        }
        Ok(())
    }

    /// Stops the processes of agent in these roles.
    pub(super) async fn stop_processes(&mut self, roles: &[&str]) -> anyhow::Result<()> {
        let is_included =
            |process: &&mut Process| process.service == "agent" && roles.contains(&process.role);
        for process in self.processes.iter_mut().filter(is_included) {
            if let Some(mut child) = process.child.take() {
                child.stop().await?;
            }
        }
        Ok(())
    }

    /// Freezes each worker of agent in turn, so that the relaying one loses its lease.
    pub(super) async fn freeze_workers(&self, duration: Duration) -> anyhow::Result<()> {
        let workers =
            self.processes.iter().filter(|process| process.service == "agent" && process.role == "work");
        for child in workers.filter_map(|process| process.child.as_ref()) {
            child.signal(Signal::SIGSTOP)?;
            sleep(duration).await;
            child.signal(Signal::SIGCONT)?;
        }
        Ok(())
    }

    /// Returns the URL of a path at the public port of a service.
    fn url(&self, service: &str, path: &str) -> anyhow::Result<String> {
        let serving =
            self.processes.iter().find(|process| process.service == service && process.role == "serve");
        let listens =
            serving.and_then(|process| process.settings.get("PUBLIC_LISTEN")).context("no process serves")?;
        Ok(format!("http://{listens}{path}"))
    }

    /// Searches the catalog of chessboard once.
    pub(super) async fn search_projects(&self) -> anyhow::Result<()> {
        let url = self.url("chessboard", "/api/v1/public/projects/facets")?;
        http::client()?.get(url).send().await?.error_for_status()?;
        Ok(())
    }

    /// Starts concurrent requests that repeat until the fault ends.
    pub(super) fn start_requests(&mut self) -> anyhow::Result<()> {
        let url = self.url("agent", PATH)?;
        let claims = Claims::user(Uuid::from_u128(rand::random())).permission("agent.cabinet.use");
        let (token, client) = (self.issuer.token(&claims)?, http::client()?);
        for _ in 0..CONCURRENT_REQUESTS {
            let (url, token, client) = (url.clone(), token.clone(), client.clone());
            self.requests.spawn(async move {
                loop {
                    // Failures are expected during the fault.
                    let _ = client.get(&url).bearer_auth(&token).send().await;
                    sleep(Duration::from_millis(50)).await;
                }
            });
        }
        Ok(())
    }

    /// Returns a new connection to the schema of a service.
    pub(super) async fn connect(&self, service: &str) -> anyhow::Result<Connection> {
        postgres::connect(&format!("{}?options=-csearch_path%3D{service}", self.cluster.url())).await
    }

    pub(super) async fn execute(&self, service: &str, sql: &str) -> anyhow::Result<()> {
        Ok(self.connect(service).await?.client.batch_execute(sql).await?)
    }

    /// Runs an operator command of a service.
    pub(super) async fn command(&self, service: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let process = self.processes.iter().find(|process| process.service == service);
        let process = process.context("there is no such service")?;
        let mut command = Command::new(processes::folder()?.join(service));
        Child::run("watch-command", command.args(arguments).envs(&process.settings)).await
    }

    pub(super) async fn set_database_running(&mut self, runs: bool) -> anyhow::Result<()> {
        if runs {
            return self.cluster.start(&Step::start("database")).await;
        }
        self.cluster.crash().await.map(drop)
    }

    pub(super) fn set_broker_running(&self, runs: bool) -> anyhow::Result<()> {
        let cluster = self.broker.cluster()?;
        let switched = if runs { cluster.broker_up(1) } else { cluster.broker_down(1) };
        Ok(switched?)
    }

    /// Publishes an event like another service.
    pub(super) async fn publish(&mut self, topic: &str, key: Uuid, payload: &Value) {
        self.sequence += 1;
        self.bus.publish(topic, key, self.sequence, payload).await;
    }

    /// Publishes an event with a sequence and a time.
    pub(super) async fn publish_at(
        &self,
        topic: &str,
        key: Uuid,
        sequence: i64,
        time: &str,
        payload: &Value,
    ) {
        let headers = [("ce_sequence", sequence.to_string()), ("ce_time", time.to_owned())];
        let (key, payload) = (key.to_string(), payload.to_string());
        self.bus.publish_raw(topic, key.as_bytes(), &headers, payload.as_bytes()).await;
    }

    /// Publishes a message like the external system.
    pub(super) async fn publish_external(&self, topic: &str, key: Uuid, payload: &Value) {
        let headers =
            [("ce_id", Uuid::from_u128(rand::random()).to_string()), ("ce_source", "/outside".to_owned())];
        let (key, payload) = (key.to_string(), payload.to_string());
        self.bus.publish_raw(topic, key.as_bytes(), &headers, payload.as_bytes()).await;
    }

    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.requests.shutdown().await;
        drop(self.lock_connection.take());
        for child in self.processes.iter_mut().filter_map(|process| process.child.as_mut()) {
            child.signal(Signal::SIGCONT)?;
            child.stop().await?;
        }
        self.cluster.stop().await.map(drop)
    }
}
