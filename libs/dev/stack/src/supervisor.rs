//! The services of a running stack. Each can be stopped and started again while the others run.

use anyhow::Context;
use futures_util::future::{join_all, select_all};
use runtime::Process;
use service::Endpoints;

use crate::processes::Processes;
use crate::services::ServiceEntry;
use devkit::Settings;
use devkit::stack::{State, Urls};

/// The way in which services run.
#[derive(Clone, Copy, Default)]
pub enum Mode {
    /// All services in this process.
    #[default]
    Here,
    /// Each service as its own processes.
    Processes,
}

#[derive(Default)]
pub struct Supervisor {
    mode: Mode,
    all: Vec<Supervised>,
}

struct Supervised {
    entry: ServiceEntry,
    settings: Settings,
    /// `None` if the service is stopped.
    instance: Option<Instance>,
}

enum Instance {
    Here(Process),
    Processes(Processes),
}

impl Supervisor {
    pub fn new(mode: Mode) -> Self {
        Self { mode, all: Vec::new() }
    }

    /// Starts a service for the first time. After a failure, [`Self::stop_all`] stops its started
    /// parts.
    pub async fn add(&mut self, entry: ServiceEntry, settings: Settings) -> anyhow::Result<Urls> {
        let mode = self.mode;
        self.all.push(Supervised { entry, settings, instance: None });
        self.find(entry.name)?.start(mode).await
    }

    /// Starts a stopped service. Returns false if it was running.
    pub async fn start(&mut self, name: &str) -> anyhow::Result<bool> {
        let mode = self.mode;
        let service = self.find(name)?;
        if service.instance.is_some() {
            return Ok(false);
        }
        let started = service.start(mode).await;
        if started.is_err() {
            // The error of the stop repeats the reason of the failed start.
            let _ = service.stop().await;
        }
        started.map(|_| true)
    }

    /// Stops a running service. Returns false if it was stopped.
    pub async fn stop(&mut self, name: &str) -> anyhow::Result<bool> {
        let service = self.find(name)?;
        let ran = service.instance.is_some();
        service.stop().await?;
        Ok(ran)
    }

    fn find(&mut self, name: &str) -> anyhow::Result<&mut Supervised> {
        let service = self.all.iter_mut().find(|service| service.entry.name == name);
        service.with_context(|| format!("there is no service {name}"))
    }

    /// Resolves when a service ends by itself.
    pub async fn wait_for_end(&mut self) -> anyhow::Error {
        let running: Vec<_> = self
            .all
            .iter_mut()
            .filter(|service| service.instance.is_some())
            .map(Supervised::wait_for_end)
            .collect();
        if running.is_empty() {
            return std::future::pending().await;
        }
        select_all(running.into_iter().map(Box::pin)).await.0
    }

    /// Stops all services in parallel and returns the errors.
    pub async fn stop_all(&mut self) -> Vec<anyhow::Error> {
        let stopped = join_all(self.all.iter_mut().map(Supervised::stop)).await;
        stopped.into_iter().filter_map(Result::err).collect()
    }
}

impl Supervised {
    async fn start(&mut self, mode: Mode) -> anyhow::Result<Urls> {
        let instance = self.instance.insert(Instance::new(mode));
        let endpoints = instance.start(&self.entry, self.settings.clone()).await?;
        self.keep_addresses(&endpoints);
        Ok(Urls {
            public_url: format!("http://{}", endpoints.public.context("no public port")?),
            internal_url: endpoints.internal.map(|address| format!("http://{address}")),
            admin_url: format!("http://{}", endpoints.admin),
            state: State::Running,
        })
    }

    /// Keeps the addresses for the next start, since other parts of the stack know them.
    fn keep_addresses(&mut self, endpoints: &Endpoints) {
        let addresses = [
            ("PUBLIC_LISTEN", endpoints.public),
            ("INTERNAL_LISTEN", endpoints.internal),
            ("ADMIN_LISTEN", Some(endpoints.admin)),
        ];
        for (variable, address) in addresses {
            if let Some(address) = address {
                self.settings.insert(variable, address.to_string());
            }
        }
    }

    async fn stop(&mut self) -> anyhow::Result<()> {
        let stopped = match &mut self.instance {
            Some(instance) => instance.stop(self.entry.name).await,
            None => Ok(()),
        };
        self.instance = None;
        stopped
    }

    async fn wait_for_end(&mut self) -> anyhow::Error {
        match &mut self.instance {
            Some(instance) => instance.wait_for_end(self.entry.name).await,
            None => std::future::pending().await,
        }
    }
}

impl Instance {
    fn new(mode: Mode) -> Self {
        match mode {
            Mode::Here => Self::Here(Process::new()),
            Mode::Processes => Self::Processes(Processes::default()),
        }
    }

    async fn start(&mut self, entry: &ServiceEntry, settings: Settings) -> anyhow::Result<Endpoints> {
        match self {
            Self::Here(process) => (entry.start)(settings, process.clone()).await,
            Self::Processes(processes) => processes.start(entry, settings).await,
        }
    }

    async fn stop(&mut self, name: &'static str) -> anyhow::Result<()> {
        match self {
            Self::Here(process) => {
                process.stop();
                process.finished().await.context(name)
            }
            Self::Processes(processes) => processes.stop().await,
        }
    }

    async fn wait_for_end(&mut self, name: &'static str) -> anyhow::Error {
        match self {
            Self::Here(process) => wait_for_end(name, process).await,
            Self::Processes(processes) => processes.wait_for_end().await,
        }
    }
}

/// Resolves when a part of this process ends by itself.
pub async fn wait_for_end(name: &'static str, process: &Process) -> anyhow::Error {
    match process.finished().await {
        Err(error) => error.context(name),
        Ok(()) => anyhow::anyhow!("{name} has ended"),
    }
}
