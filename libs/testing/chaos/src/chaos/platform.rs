//! The platform under test: every service as processes, their database and their broker.

use std::time::Duration;

use anyhow::{Context, ensure};
use console::style;
use testkit::issuer::{Issuer, RunningIssuer};
use testkit::ports;
use tokio::time::Instant;

use super::POLL_INTERVAL;
use super::access::{Access, InvalidCertificate};
use super::broker::{Broker, NodeFault};
use super::fault::{Fault, FaultKind, WORKERS};
use super::replica::Replica;
use devkit::bus::Kind;
use devkit::postgres::Cluster;
use devkit::progress::Step;
use devkit::{Settings, livekit};
use devstack::services::{self, ServiceEntry};

/// Timeout until all processes of a service have the new password.
const RESTART_TIMEOUT: Duration = Duration::from_mins(3);

pub(super) struct Platform {
    pub(super) services: Vec<ServiceEntry>,
    pub(super) issuer: RunningIssuer,
    pub(super) replicas: Vec<Replica>,
    /// Number of processes that ended by themselves.
    pub(super) ended: usize,
    pub(super) cluster: Cluster,
    access: Access,
    broker: Broker,
    client: reqwest::Client,
}

impl Platform {
    /// Prepares everything that need not be stopped. Dropping the platform ends the broker.
    pub(super) async fn prepare(kind: Kind) -> anyhow::Result<Self> {
        let services = services::all();
        let step = Step::start("broker");
        let broker = Broker::start(kind, &services::topics(&services), &step).await?;
        step.done(broker.addresses()?);
        let cluster = Cluster::prepare(Cluster::CHAOS, true, &Step::start("database")).await?;
        let (issuer, access) = (Issuer::start()?, Access::new(services.len()));
        let (replicas, client) = (Vec::new(), devkit::http::client()?);
        Ok(Self { services, issuer, replicas, ended: 0, cluster, access, broker, client })
    }

    /// Starts the database and the services. [`Platform::stop`] stops the started parts.
    pub(super) async fn start(&mut self) -> anyhow::Result<()> {
        let step = Step::start("database");
        self.access.restore_certificate(&mut self.cluster).await?;
        self.cluster.start(&step).await?;
        self.cluster.add_standby().await?;
        step.done(self.cluster.describe());
        let mut common = Settings::from([
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
        common.extend(self.access.settings());
        common.extend(livekit::settings(false));
        for service in &self.services {
            let mut settings = service.settings(&common);
            settings.insert("DATABASE_URL", Access::create_role(&self.cluster, service.name).await?);
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
        self.broker.addresses()
    }

    /// Returns the base URL of a service.
    pub(super) fn base(&self, service: &str) -> anyhow::Result<String> {
        let serves = self.replicas.iter().find(|replica| replica.serves(service));
        serves.and_then(Replica::base).with_context(|| format!("no replica serves {service}"))
    }

    /// Injects a fault. Returns false if the target has a fault already.
    pub(super) async fn inject(&mut self, Fault { kind, target }: Fault) -> anyhow::Result<bool> {
        match kind {
            FaultKind::KillServe | FaultKind::KillWork | FaultKind::FreezeServe | FaultKind::FreezeWork => {
                let replica = &mut self.replicas[target];
                if !replica.is_running() {
                    return Ok(false);
                }
                match kind {
                    FaultKind::KillServe | FaultKind::KillWork => replica.kill().await?,
                    _ => replica.freeze()?,
                }
            }
            FaultKind::CrashDatabase => {
                self.cluster.crash().await?;
                self.cluster.start(&Step::start("database")).await?;
            }
            FaultKind::FailOver => self.cluster.fail_over_in_sync().await?,
            FaultKind::CutConnections => self.cluster.cut_connections(None).await?,
            FaultKind::ExpirePassword => {
                let role = self.services[target].name;
                let restarts = self.replicas.iter().any(|one| one.is_of(role) && one.is_restart_due());
                return Ok(!restarts && self.access.expire_password(&self.cluster, target, role).await?);
            }
            FaultKind::InvalidateCertificate => {
                let invalid = InvalidCertificate::of(target);
                return self.access.invalidate_certificate(&mut self.cluster, invalid).await;
            }
            FaultKind::KillBroker => return self.broker.inject(NodeFault::Killed(target)).await,
            FaultKind::FreezeBroker => return self.broker.inject(NodeFault::Frozen(target)).await,
            // The round injects losses, and the load revokes access.
            FaultKind::LoseTail | FaultKind::RestoreBackup | FaultKind::RevokeAccess => return Ok(false),
        }
        Ok(true)
    }

    /// Ends a fault.
    pub(super) async fn recover(&mut self, Fault { kind, target }: Fault) -> anyhow::Result<()> {
        match kind {
            FaultKind::KillServe | FaultKind::KillWork | FaultKind::FreezeServe | FaultKind::FreezeWork => {
                self.replicas[target].restore()
            }
            FaultKind::KillBroker | FaultKind::FreezeBroker => self.broker.recover(),
            FaultKind::ExpirePassword => {
                self.renew_password(target);
                Ok(())
            }
            FaultKind::InvalidateCertificate => self.access.restore_certificate(&mut self.cluster).await,
            FaultKind::CrashDatabase
            | FaultKind::FailOver
            | FaultKind::CutConnections
            | FaultKind::LoseTail
            | FaultKind::RestoreBackup
            | FaultKind::RevokeAccess => Ok(()),
        }
    }

    /// Writes the new password of a service into its settings, if the service does not have it.
    fn renew_password(&mut self, service: usize) {
        let role = self.services[service].name;
        if let Some(url) = self.access.renew_password(&self.cluster, service, role) {
            for replica in self.replicas.iter_mut().filter(|replica| replica.is_of(role)) {
                replica.set("DATABASE_URL", url.clone());
            }
        }
    }

    /// Restarts the processes that have former settings, those of a service one after the other.
    /// Returns true while a process has former settings or restarts.
    pub(super) async fn restart_outdated(&mut self) -> anyhow::Result<bool> {
        let mut has_outdated = false;
        for service in &self.services {
            let mut next = None;
            let mut is_busy = false;
            for replica in self.replicas.iter_mut().filter(|replica| replica.is_of(service.name)) {
                is_busy |= replica.is_restarting(&self.client).await?;
                if next.is_none() && replica.is_restart_due() {
                    next = Some(replica);
                }
            }
            has_outdated |= is_busy || next.is_some();
            if let Some(replica) = next.filter(|_| !is_busy) {
                replica.begin_restart().await?;
            }
        }
        Ok(has_outdated)
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
        self.broker.recover()?;
        self.access.restore_certificate(&mut self.cluster).await?;
        for service in 0..self.services.len() {
            self.renew_password(service);
        }
        self.restart_ended()?;
        for replica in &mut self.replicas {
            replica.restore()?;
        }
        let deadline = Instant::now() + RESTART_TIMEOUT;
        while self.restart_outdated().await? {
            ensure!(Instant::now() < deadline, "a process does not restart");
            tokio::time::sleep(POLL_INTERVAL).await;
            self.restart_ended()?;
        }
        for replica in &self.replicas {
            replica.ready().await?;
        }
        Ok(())
    }

    pub(super) fn describe(&self, Fault { kind, target }: Fault, duration: Duration) -> String {
        let seconds = duration.as_secs_f32();
        let process = || &self.replicas[target].name;
        match kind {
            FaultKind::KillServe | FaultKind::KillWork => {
                format!("{} is killed; back in {seconds:.1} s", process())
            }
            FaultKind::FreezeServe | FaultKind::FreezeWork => {
                format!("{} is frozen for {seconds:.1} s", process())
            }
            FaultKind::CrashDatabase => "the database crashed and was restarted".to_owned(),
            FaultKind::FailOver => "the database crashed and its standby was promoted".to_owned(),
            FaultKind::CutConnections => "all connections to the database are cut".to_owned(),
            FaultKind::ExpirePassword => {
                let service = self.services[target].name;
                format!("the password of {service} has expired; a new one is known in {seconds:.1} s")
            }
            FaultKind::InvalidateCertificate => {
                let invalid = InvalidCertificate::of(target).describe();
                format!("the certificate of the database is {invalid} for {seconds:.1} s")
            }
            FaultKind::KillBroker => format!("node {target} of the broker is killed; back in {seconds:.1} s"),
            FaultKind::FreezeBroker => format!("node {target} of the broker is frozen for {seconds:.1} s"),
            FaultKind::LoseTail | FaultKind::RestoreBackup | FaultKind::RevokeAccess => {
                kind.name().to_owned()
            }
        }
    }

    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        for replica in &mut self.replicas {
            replica.stop().await?;
        }
        self.broker.stop().await?;
        self.cluster.stop_with_standby().await
    }
}
