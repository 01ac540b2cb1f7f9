//! The peer: a server in Go with some operations of the services, on the same database.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::Context;
use devkit::children::Child;
use devkit::progress::Step;
use devkit::stack;
use devstack::processes;
use tokio::process::Command;

use super::environment::Environment;
use super::platform::{self, Platform};
use super::report::{Goal, Rounds, Row, Unit};

/// A process of the peer, which ends with this value.
pub(super) struct Peer {
    pub(super) url: String,
    child: Child,
}

/// Builds the program of the peer. Returns `None` if Go is missing.
pub(super) async fn build() -> anyhow::Result<Option<PathBuf>> {
    let step = Step::start("peers");
    let version = Command::new("go").arg("version").stdin(Stdio::null()).output().await;
    let Ok(version) = version else {
        step.done("skipped, since Go is missing");
        return Ok(None);
    };
    step.note("go build");
    let program = stack::dev_path("bench")?.join("peers");
    let mut build = Command::new("go");
    build.current_dir(stack::root().join("libs/testing/bench/peers"));
    Child::run("go-build", build.args(["build", "-o"]).arg(&program).arg(".")).await?;
    step.done(String::from_utf8_lossy(&version.stdout).trim());
    Ok(Some(program))
}

impl Peer {
    /// Starts the peer on the tables of one service, and waits until it is ready. Returns `None` if
    /// the peer is not measured.
    pub(super) async fn start(
        environment: &Environment,
        platform: &Platform,
        schema: &str,
    ) -> anyhow::Result<Option<Self>> {
        let Some(program) = environment.peer() else { return Ok(None) };
        let listen = platform::address()?;
        let mut command = Command::new(program);
        command.env("LISTEN", &listen).env("SCHEMA", schema);
        command.env("DATABASE_URL", environment.database_url()).env("AUTH_ISSUER", platform.issuer.url());
        let mut child = Child::spawn(format!("bench-peer-{schema}"), &mut command)?;
        tokio::select! {
            result = processes::ready(listen.parse()?) => result.context("the peer")?,
            error = child.wait_for_end() => return Err(error),
        }
        Ok(Some(Self { url: format!("http://{listen}"), child }))
    }

    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.child.stop().await
    }
}

/// Returns the rows of the peer, with the ratio of the service's rate to it.
pub(super) fn rows(what: &str, service: &[f64], peer: Vec<f64>, goal: Goal) -> [Row; 2] {
    let ratios = Rounds::ratios(service, &peer);
    [
        Row::new(format!("{what}: the same in Go/s"), Unit::PerSecond, Rounds::new(peer)),
        Row::new(format!("{what}: ratio to the same in Go"), Unit::Ratio, ratios).goal(goal),
    ]
}
