//! `--media`: a LiveKit server beside the stack, from the machine or built once from its Go module.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::json;
use testkit::livekit::{fetch, fetch_browser_client, server};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::Settings;
use crate::children::Child;
use crate::http;
use crate::progress::Step;

/// LiveKit's development key and its default port.
const KEY: &str = "devkey";
const SECRET: &str = "secret";
const CLIENT_URL: &str = "ws://127.0.0.1:7880";
const API_URL: &str = "http://127.0.0.1:7880";

/// Timeout of the server's start.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(20);

/// Install LiveKit's server and client, and report whether they can run here; needs Go
///
/// Both are built once from their Go modules into .dev/livekit. `cargo dev up --media` and the
/// tests of real calls use them. npm installs the client for browsers, which the start page loads.
#[derive(Args)]
pub struct Fetch {}

impl Fetch {
    pub async fn run(self) -> anyhow::Result<()> {
        fetch().await?;
        if let Err(error) = fetch_browser_client().await {
            // The tests of services do not need the client for browsers.
            eprintln!("{error:#}; without it the start page shows calls, but transfers no audio or video");
        }
        Ok(())
    }
}

/// Returns the client for browsers if it is installed.
pub async fn browser_client() -> Option<Vec<u8>> {
    tokio::fs::read(testkit::livekit::browser_client()).await.ok()
}

/// Returns the settings of services. Services create tokens and accept webhooks without a server,
/// so they probe the server only if it runs.
pub fn settings(runs: bool) -> Settings {
    let probe = if runs { "10" } else { "0" };
    let settings = [
        ("LIVEKIT_URL", CLIENT_URL),
        ("LIVEKIT_API_URL", API_URL),
        ("LIVEKIT_API_KEY", KEY),
        ("LIVEKIT_API_SECRET", SECRET),
        ("MESSENGER_MEDIA_PROBE_SECONDS", probe),
    ];
    settings.map(|(name, value)| (name, value.to_owned())).into()
}

/// A running LiveKit server.
pub struct LiveKit(Child);

impl LiveKit {
    /// URL for clients.
    pub const URL: &'static str = CLIENT_URL;

    /// Starts a server whose webhooks go to the stack at `base_url`.
    pub async fn start(base_url: &str, step: &Step) -> anyhow::Result<Self> {
        let program = find_or_build(step).await?;
        if !testkit::livekit::browser_client().is_file()
            && let Err(error) = fetch_browser_client().await
        {
            // Without the client the start page shows calls, but transfers no audio or video.
            step.note(format!("{error:#}"));
        }
        step.note("starting");
        let webhooks = format!("{base_url}/api/messenger/webhooks/livekit");
        // JSON is also YAML. A machine may have no address but loopback.
        let config = json!({
            "webhook": {"api_key": KEY, "urls": [webhooks]},
            "rtc": {"enable_loopback_candidate": true},
        });
        let mut command = Command::new(program);
        command.args(["--dev", "--bind", "127.0.0.1", "--config-body", &config.to_string()]);
        let mut server = Self(Child::spawn("livekit", &mut command)?);
        tokio::select! {
            ready = wait_until_ready() => ready?,
            error = server.wait_for_end() => return Err(error),
        }
        Ok(server)
    }

    /// Resolves with the reason when the server ends by itself.
    pub async fn wait_for_end(&mut self) -> anyhow::Error {
        self.0.wait_for_end().await
    }

    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.0.stop().await
    }
}

async fn wait_until_ready() -> anyhow::Result<()> {
    let (client, deadline) = (http::client()?, Instant::now() + STARTUP_TIMEOUT);
    while !client.get(API_URL).send().await.is_ok_and(|response| response.status().is_success()) {
        ensure!(Instant::now() < deadline, "LiveKit does not respond at {API_URL}");
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Returns the program on the machine, or builds it.
async fn find_or_build(step: &Step) -> anyhow::Result<PathBuf> {
    if let Some(program) = server() {
        return Ok(program);
    }
    step.note("building LiveKit from its Go module (once, about 2 min)");
    fetch().await.context("install LiveKit or Go, or leave out --media")?;
    server().context("LiveKit was not built")
}
