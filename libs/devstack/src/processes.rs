//! `--processes`: each service as two processes, `serve` and `work`, configured by environment alone.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::future::select_all;
use tokio::process::Command;

use crate::areas::{Area, Settings};
use crate::children::Child;
use crate::progress::Step;
use crate::stack::{self, Urls};

/// How long a process may take until it is ready.
const PATIENCE: Duration = Duration::from_secs(30);

/// The services' processes.
#[derive(Default)]
pub(crate) struct Processes(Vec<Child>);

impl Processes {
    /// Builds the binaries, in the profile of this one.
    pub(crate) async fn build(&self, areas: &[Area]) -> anyhow::Result<()> {
        let step = Step::start("binaries");
        step.note("cargo build");
        let folder = folder()?;
        let mut cargo = crate::cargo();
        cargo.arg("build").args(areas.iter().flat_map(|area| ["--package", area.name]));
        cargo.arg("--target-dir").arg(folder.parent().context("the binary lies nowhere")?);
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        Child::run("build", &mut cargo).await.context("the services do not build")?;
        step.done(folder.display());
        Ok(())
    }

    /// Starts both roles of a service and answers once they are ready.
    pub(crate) async fn start(&mut self, area: &Area, mut settings: Settings) -> anyhow::Result<Urls> {
        let address = || anyhow::Ok(format!("127.0.0.1:{}", stack::free_port()?));
        let (public, internal, admin) = (address()?, address()?, address()?);
        settings.insert("PUBLIC_LISTEN", public.clone());
        settings.insert("INTERNAL_LISTEN", internal.clone());
        for (role, admin) in [("serve", admin.clone()), ("work", address()?)] {
            settings.insert("ADMIN_LISTEN", admin.clone());
            let mut command = Command::new(folder()?.join(area.name));
            let child = Child::spawn(format!("{}-{role}", area.name), command.arg(role).envs(&settings))?;
            self.0.push(child);
            let Some(child) = self.0.last_mut() else { continue };
            tokio::select! {
                result = ready(&admin) => result.with_context(|| format!("{} {role}", area.name))?,
                error = child.ended() => return Err(error),
            }
        }
        Ok(Urls {
            public_url: format!("http://{public}"),
            internal_url: area.url_variable.map(|_| format!("http://{internal}")),
            admin_url: format!("http://{admin}"),
        })
    }

    /// Resolves when a process has ended that should not have.
    pub(crate) async fn ended(&mut self) -> anyhow::Error {
        if self.0.is_empty() {
            return std::future::pending().await;
        }
        select_all(self.0.iter_mut().map(|child| Box::pin(child.ended()))).await.0
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        let stopped = futures_util::future::join_all(self.0.into_iter().map(Child::stop)).await;
        stopped.into_iter().collect()
    }
}

/// Where cargo has put this binary, and puts those of the services.
fn folder() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.parent().context("the binary lies nowhere")?.to_owned())
}

async fn ready(admin: &str) -> anyhow::Result<()> {
    let client = crate::http::client()?;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while tokio::time::Instant::now() < deadline {
        let answer = client.get(format!("http://{admin}/health/ready")).send().await;
        if answer.is_ok_and(|answer| answer.status().is_success()) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("not ready within {} s", PATIENCE.as_secs())
}
