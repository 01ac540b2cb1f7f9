//! `--processes`: each service as two processes, `serve` and `work`, configured by environment
//! variables.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::future::{join_all, select_all};
use service::Endpoints;
use testkit::ports;
use tokio::process::Command;

use crate::services::ServiceEntry;
use devkit::Settings;
use devkit::children::Child;
use devkit::progress::Step;

/// Timeout until a process is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// The processes of one service.
#[derive(Default)]
pub struct Processes(Vec<Child>);

/// Builds the binaries of the services in the profile of this binary.
pub async fn build(services: &[ServiceEntry]) -> anyhow::Result<()> {
    let step = Step::start("binaries");
    step.note("cargo build");
    let folder = folder()?;
    let mut cargo = devkit::cargo();
    cargo.arg("build").arg("--bins").args(services.iter().flat_map(|service| ["--package", service.name]));
    cargo.arg("--target-dir").arg(folder.parent().context("the binary has no folder")?);
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    Child::run("build", &mut cargo).await.context("failed to build the services")?;
    step.done(folder.display());
    Ok(())
}

impl Processes {
    /// Starts both roles of a service and waits until they are ready.
    pub async fn start(
        &mut self,
        service: &ServiceEntry,
        mut settings: Settings,
    ) -> anyhow::Result<Endpoints> {
        let mut listen = |variable| {
            let address = address(settings.get(variable))?;
            settings.insert(variable, address.to_string());
            anyhow::Ok(address)
        };
        let (public, internal) = (listen("PUBLIC_LISTEN")?, listen("INTERNAL_LISTEN")?);
        let admin = listen("ADMIN_LISTEN")?;
        for (role, admin) in [("serve", admin), ("work", address(None)?)] {
            settings.insert("ADMIN_LISTEN", admin.to_string());
            let mut command = Command::new(folder()?.join(service.name));
            let child = Child::spawn(format!("{}-{role}", service.name), command.arg(role).envs(&settings))?;
            self.0.push(child);
            let Some(child) = self.0.last_mut() else { continue };
            tokio::select! {
                result = ready(admin) => result.with_context(|| format!("{} {role}", service.name))?,
                error = child.wait_for_end() => return Err(error),
            }
        }
        let internal = service.url_variable.map(|_| internal);
        Ok(Endpoints { public: Some(public), internal, admin })
    }

    /// Resolves when a process ends by itself.
    pub async fn wait_for_end(&mut self) -> anyhow::Error {
        if self.0.is_empty() {
            return std::future::pending().await;
        }
        select_all(self.0.iter_mut().map(|child| Box::pin(child.wait_for_end()))).await.0
    }

    pub async fn stop(&mut self) -> anyhow::Result<()> {
        let stopped = join_all(self.0.iter_mut().map(Child::stop)).await;
        stopped.into_iter().collect()
    }
}

/// Returns the wanted address, with a free port if its port is 0 or missing.
fn address(wanted: Option<&String>) -> anyhow::Result<SocketAddr> {
    let wanted = wanted.map(|text| text.parse::<SocketAddr>()).transpose()?;
    match wanted.filter(|address| address.port() != 0) {
        Some(address) => Ok(address),
        None => Ok(([127, 0, 0, 1], ports::free()?).into()),
    }
}

/// Returns the folder of this binary, which also has the binaries of the services.
pub fn folder() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.parent().context("the binary has no folder")?.to_owned())
}

pub async fn ready(admin: SocketAddr) -> anyhow::Result<()> {
    let client = devkit::http::client()?;
    let deadline = tokio::time::Instant::now() + READY_TIMEOUT;
    let mut missing = "no response".to_owned();
    while tokio::time::Instant::now() < deadline {
        if let Ok(response) = client.get(format!("http://{admin}/health/ready")).send().await {
            if response.status().is_success() {
                return Ok(());
            }
            missing = response.text().await?;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    bail!("not ready within {} s: {missing}", READY_TIMEOUT.as_secs())
}
