//! A process of a service that can be killed, frozen and restarted.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use tokio::process::Command;

use devkit::Settings;
use devkit::children::{self, Child};
use devstack::processes;
use testkit::signals::Signal;

/// Timeout of a request for the readiness.
const READINESS_TIMEOUT: Duration = Duration::from_millis(300);

pub(super) struct Replica {
    pub(super) name: String,
    pub(super) program: &'static str,
    role: &'static str,
    settings: Settings,
    /// `None` before the first start and after a kill.
    child: Option<Child>,
    frozen: bool,
    restart: Restart,
    /// Number of starts. Each start has a log of its own.
    starts: u32,
}

/// The state of a restart with new settings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Restart {
    /// The process has the present settings and has been ready.
    Done,
    /// The process has former settings.
    Due,
    /// The process ends after a SIGTERM.
    Stopping,
    /// The process has the present settings and has not been ready yet.
    Starting,
}

impl Replica {
    /// Returns a replica that listens on the addresses of `settings`.
    pub(super) fn new(service: &'static str, role: &'static str, number: usize, settings: Settings) -> Self {
        let name = format!("{service}-{role}-{number}");
        Self {
            name,
            program: service,
            role,
            settings,
            child: None,
            frozen: false,
            restart: Restart::Done,
            starts: 0,
        }
    }

    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(processes::folder()?.join(self.program));
        command.arg(self.role).envs(&self.settings).env("LOG", "info");
        self.starts += 1;
        self.restart = if self.restart == Restart::Stopping { Restart::Starting } else { Restart::Done };
        self.child = Some(Child::spawn(self.log_name(), &mut command)?);
        Ok(())
    }

    /// Returns the name of the log since the last start.
    fn log_name(&self) -> String {
        format!("chaos-{}-{}", self.name, self.starts)
    }

    /// Returns the epoch of the relay's session, as its log says. The session may have lost its
    /// lease.
    pub(super) fn session_epoch(&self) -> anyhow::Result<Option<i64>> {
        let log = std::fs::read_to_string(children::log(&self.log_name())?)?;
        let last = log.lines().rev().find(|line| line.contains("relay session"));
        let Some(last) = last.filter(|line| line.contains("relay session started")) else { return Ok(None) };
        Ok(serde_json::from_str::<Value>(last)?["epoch"].as_i64())
    }

    /// Changes a setting. A running process keeps the former one until
    /// [`Replica::advance_restart`].
    pub(super) fn set(&mut self, variable: &'static str, value: String) {
        self.settings.insert(variable, value);
        if self.child.is_some() {
            self.restart = Restart::Due;
        }
    }

    /// Returns true if the process has former settings.
    pub(super) fn is_restart_due(&self) -> bool {
        self.restart == Restart::Due
    }

    /// Ends a process with former settings, which [`Replica::restart_ended`] then starts again. A
    /// frozen process is killed.
    pub(super) async fn begin_restart(&mut self) -> anyhow::Result<()> {
        self.restart = Restart::Stopping;
        if self.frozen {
            self.frozen = false;
            if let Some(child) = self.child.take() {
                child.kill().await?;
            }
            return self.start();
        }
        self.signal(Signal::SIGTERM)
    }

    /// Returns true while the process restarts. Other faults of the process end the restart.
    pub(super) async fn is_restarting(&mut self, client: &reqwest::Client) -> anyhow::Result<bool> {
        if self.restart == Restart::Starting && (!self.is_running() || self.is_ready(client).await?) {
            self.restart = Restart::Done;
        }
        Ok(matches!(self.restart, Restart::Stopping | Restart::Starting))
    }

    async fn is_ready(&self, client: &reqwest::Client) -> anyhow::Result<bool> {
        let admin = self.settings.get("ADMIN_LISTEN").context("no admin port")?;
        let ready = client.get(format!("http://{admin}/health/ready")).timeout(READINESS_TIMEOUT);
        Ok(ready.send().await.is_ok_and(|response| response.status().is_success()))
    }

    /// Runs an operator command of the service with the settings of this replica.
    pub(super) async fn run(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(processes::folder()?.join(self.program));
        command.args(arguments).envs(&self.settings).env("LOG", "error");
        let name = format!("chaos-{}-command", self.program);
        Child::run(&name, &mut command).await.with_context(|| name.clone())
    }

    pub(super) async fn ready(&self) -> anyhow::Result<()> {
        let admin: SocketAddr = self.settings.get("ADMIN_LISTEN").context("no admin port")?.parse()?;
        processes::ready(admin).await.with_context(|| self.name.clone())
    }

    pub(super) fn is_of(&self, service: &str) -> bool {
        self.program == service
    }

    pub(super) fn serves(&self, service: &str) -> bool {
        self.is_of(service) && self.role == "serve"
    }

    /// Returns the base URL of the replica.
    pub(super) fn base(&self) -> Option<String> {
        Some(format!("http://{}", self.settings.get("PUBLIC_LISTEN")?))
    }

    pub(super) fn is_running(&self) -> bool {
        self.child.is_some() && !self.frozen
    }

    /// Restarts the process if it ended. Returns the reason if it ended by itself.
    pub(super) fn restart_ended(&mut self) -> anyhow::Result<Option<anyhow::Error>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        let Some(reason) = child.has_ended()? else { return Ok(None) };
        let was_stopping = self.restart == Restart::Stopping;
        self.frozen = false;
        self.start()?;
        Ok(Some(reason).filter(|_| !was_stopping))
    }

    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        // The next start has the present settings.
        self.restart = Restart::Done;
        match self.child.take() {
            Some(child) => child.kill().await,
            None => Ok(()),
        }
    }

    pub(super) fn freeze(&mut self) -> anyhow::Result<()> {
        self.frozen = true;
        self.signal(Signal::SIGSTOP)
    }

    /// Thaws a frozen process and restarts a killed one.
    pub(super) fn restore(&mut self) -> anyhow::Result<()> {
        if self.frozen {
            self.frozen = false;
            self.signal(Signal::SIGCONT)?;
        }
        if self.child.is_none() {
            self.start()?;
        }
        Ok(())
    }

    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        match &mut self.child {
            Some(child) => child.stop().await,
            None => Ok(()),
        }
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        match &self.child {
            Some(child) => child.signal(signal),
            None => Ok(()),
        }
    }
}
