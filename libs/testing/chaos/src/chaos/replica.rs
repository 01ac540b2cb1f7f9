//! A process of a service that can be killed, frozen and restarted.

use std::net::SocketAddr;

use anyhow::Context;
use tokio::process::Command;

use devkit::Settings;
use devkit::children::Child;
use devstack::processes;
use testkit::signals::Signal;

pub(super) struct Replica {
    pub(super) name: String,
    program: &'static str,
    role: &'static str,
    settings: Settings,
    /// `None` before the first start and after a kill.
    child: Option<Child>,
    frozen: bool,
    /// Number of starts. Each start has a log of its own.
    starts: u32,
}

impl Replica {
    /// Returns a replica that listens on the addresses of `settings`.
    pub(super) fn new(service: &'static str, role: &'static str, number: usize, settings: Settings) -> Self {
        let name = format!("{service}-{role}-{number}");
        Self { name, program: service, role, settings, child: None, frozen: false, starts: 0 }
    }

    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(processes::folder()?.join(self.program));
        command.arg(self.role).envs(&self.settings).env("LOG", "info");
        self.starts += 1;
        self.child = Some(Child::spawn(format!("chaos-{}-{}", self.name, self.starts), &mut command)?);
        Ok(())
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

    /// Restarts the process if it ended by itself, and returns the reason.
    pub(super) fn restart_ended(&mut self) -> anyhow::Result<Option<anyhow::Error>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        let reason = child.has_ended()?;
        if reason.is_some() {
            self.frozen = false;
            self.start()?;
        }
        Ok(reason)
    }

    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
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
