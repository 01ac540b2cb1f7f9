//! `--media`: a real LiveKit server beside the stack, from the machine, else built once from its Go module.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::areas::Settings;
use crate::children::Child;
use crate::progress::Step;
use crate::{http, stack};

/// LiveKit's own development pair, and its usual port.
const KEY: &str = "devkey";
const SECRET: &str = "secret";
const CLIENTS: &str = "ws://127.0.0.1:7880";
const API: &str = "http://127.0.0.1:7880";

const MODULE: &str = "module local/livekit\n\nrequire github.com/livekit/livekit-server v1.13.5\n";
const PACKAGE: &str = "github.com/livekit/livekit-server/cmd/server";

/// How long it may take until it answers.
const PATIENCE: Duration = Duration::from_secs(20);

/// What services are told of it. Tokens and webhooks work without one; only where one runs it is probed.
pub(crate) fn settings(runs: bool) -> Settings {
    let probe = if runs { "10" } else { "0" };
    let settings = [
        ("LIVEKIT_URL", CLIENTS),
        ("LIVEKIT_API_URL", API),
        ("LIVEKIT_API_KEY", KEY),
        ("LIVEKIT_API_SECRET", SECRET),
        ("MESSENGER_MEDIA_PROBE_SECONDS", probe),
    ];
    settings.map(|(name, value)| (name, value.to_owned())).into()
}

/// A running server.
pub(crate) struct LiveKit(Child);

impl LiveKit {
    /// Where clients find it.
    pub(crate) const URL: &'static str = CLIENTS;

    /// Starts one whose webhooks go to the stack at `base_url`.
    pub(crate) async fn start(base_url: &str, step: &Step) -> anyhow::Result<Self> {
        let program = find_or_build(step).await?;
        step.note("starting");
        let webhooks = format!("{base_url}/api/messenger/webhooks/livekit");
        let config = format!("webhook: {{api_key: {KEY}, urls: [\"{webhooks}\"]}}");
        let mut command = Command::new(program);
        command.args(["--dev", "--bind", "127.0.0.1", "--config-body", &config]);
        let mut server = Self(Child::spawn("livekit", &mut command)?);
        tokio::select! {
            answered = answers() => answered?,
            error = server.ended() => return Err(error),
        }
        Ok(server)
    }

    /// Resolves with the reason when it ends although nobody stopped it.
    pub(crate) async fn ended(&mut self) -> anyhow::Error {
        self.0.ended().await
    }

    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.0.stop().await
    }
}

async fn answers() -> anyhow::Result<()> {
    let (client, deadline) = (http::client()?, Instant::now() + PATIENCE);
    while !client.get(API).send().await.is_ok_and(|answer| answer.status().is_success()) {
        ensure!(Instant::now() < deadline, "it does not answer at {API}");
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// The one on the machine, else the one that was built before, else a new one.
async fn find_or_build(step: &Step) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("livekit-server"));
    if let Some(program) = found.into_iter().find(|program| program.is_file()) {
        return Ok(program);
    }
    let folder = stack::dev("livekit")?;
    let program = folder.join("livekit-server");
    if !program.is_file() {
        step.note("building LiveKit from its Go module, once (about 80 s)");
        build(&folder).await.context(
            "no livekit-server on the PATH, and none can be built: install LiveKit or Go, or leave out --media",
        )?;
    }
    Ok(program)
}

async fn build(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("go.mod"), MODULE)?;
    let mut go = Command::new("go");
    // A name of its own until it is whole.
    go.args(["build", "-mod=mod", "-o", "livekit-server.new", PACKAGE]).current_dir(folder);
    Child::run("livekit-build", &mut go).await?;
    Ok(std::fs::rename(folder.join("livekit-server.new"), folder.join("livekit-server"))?)
}
