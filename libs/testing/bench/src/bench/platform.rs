//! The services as deployed: release builds, a process for each role, with tokens and traces.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};
use testkit::issuer::{Issuer, RunningIssuer};
use testkit::ports;
use tokio::process::Command;
use tokio::time::Instant;

use super::environment::Environment;
use devkit::Settings;
use devkit::children::Child;
use devstack::processes;
use devstack::services;

/// Interval between two samples of the memory of a process.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

pub(super) struct Platform {
    pub(super) issuer: RunningIssuer,
    /// The settings of each service by its name.
    settings: BTreeMap<&'static str, Settings>,
}

/// A process of a service, which ends with this value.
pub(super) struct Service {
    /// Public URL.
    pub(super) url: String,
    /// URL of health checks and metrics.
    pub(super) admin: String,
    /// Time from the start until the process was ready.
    pub(super) ready_after: Duration,
    child: Child,
}

impl Platform {
    /// Builds every service and migrates its schema.
    pub(super) async fn prepare(environment: &Environment) -> anyhow::Result<Self> {
        let services = services::all();
        processes::build(&services).await?;
        let issuer = Issuer::start()?;
        let mut common = Settings::from([
            ("DATABASE_URL", environment.database_url()),
            ("KAFKA_BROKERS", environment.brokers()?),
            ("KAFKA_TOPICS", "elsewhere".to_owned()),
            ("AUTH_ISSUER", issuer.url().to_owned()),
            // The scripts forward many addresses, so that no guest exceeds the rate limit.
            ("TRUSTED_PROXIES", "127.0.0.0/8".to_owned()),
        ]);
        let mut all = BTreeMap::new();
        for service in services {
            let mut settings = service.settings(&common);
            for variable in ["PUBLIC_LISTEN", "INTERNAL_LISTEN"] {
                settings.insert(variable, address()?);
            }
            (service.migrate)(settings.clone()).await?;
            if let Some(variable) = service.url_variable {
                common.insert(variable, format!("http://{}", settings["INTERNAL_LISTEN"]));
            }
            all.insert(service.name, settings);
        }
        Ok(Self { issuer, settings: all })
    }

    /// Returns the internal URL of a service.
    pub(super) fn internal(&self, name: &str) -> String {
        format!("http://{}", self.settings[name]["INTERNAL_LISTEN"])
    }

    /// Starts a process and waits until it is ready.
    pub(super) async fn start(
        &self,
        name: &str,
        role: &str,
        own: &[(&'static str, String)],
    ) -> anyhow::Result<Service> {
        let mut settings = self.settings.get(name).with_context(|| format!("there is no {name}"))?.clone();
        let admin = address()?;
        settings.insert("ADMIN_LISTEN", admin.clone());
        settings.extend(own.iter().cloned());
        let mut command = Command::new(processes::folder()?.join(name));
        let begun = Instant::now();
        let mut child = Child::spawn(format!("bench-{name}-{role}"), command.arg(role).envs(&settings))?;
        tokio::select! {
            result = processes::ready(admin.parse()?) => result.with_context(|| format!("{name} {role}"))?,
            error = child.wait_for_end() => return Err(error),
        }
        let url = format!("http://{}", settings["PUBLIC_LISTEN"]);
        Ok(Service { url, admin: format!("http://{admin}"), ready_after: begun.elapsed(), child })
    }
}

impl Service {
    /// Returns the memory of the process in MiB.
    pub(super) fn memory(&self) -> anyhow::Result<f64> {
        let kibibytes = self.process_figure(sysinfo::Process::memory)? / 1024;
        Ok(f64::from(u32::try_from(kibibytes)?) / 1024.0)
    }

    /// Runs `work` and returns its result with the highest memory of the process during it, in MiB.
    pub(super) async fn highest_memory<T>(
        &self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<(T, f64)> {
        let mut highest = self.memory()?;
        let mut work = pin!(work);
        loop {
            tokio::select! {
                result = &mut work => return Ok((result?, highest)),
                () = tokio::time::sleep(SAMPLE_INTERVAL) => highest = highest.max(self.memory()?),
            }
        }
    }

    /// Returns the CPU time of all threads of the process.
    pub(super) fn cpu_time(&self) -> anyhow::Result<Duration> {
        Ok(Duration::from_millis(self.process_figure(sysinfo::Process::accumulated_cpu_time)?))
    }

    fn process_figure(&self, figure: impl FnOnce(&sysinfo::Process) -> u64) -> anyhow::Result<u64> {
        let id = Pid::from_u32(self.child.id().context("the process has ended")?);
        let mut system = System::new()?;
        let what = ProcessRefreshKind::nothing().with_memory().with_cpu().without_tasks();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[id]), false, what);
        system.process(id).map(figure).context("the process has ended")
    }

    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.child.stop().await
    }
}

/// Returns a free loopback address.
pub(super) fn address() -> anyhow::Result<String> {
    Ok(format!("127.0.0.1:{}", ports::free()?))
}
