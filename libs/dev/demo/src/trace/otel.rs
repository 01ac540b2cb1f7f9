//! An OpenTelemetry Collector with two parts: a receiver and an exporter of OTLP over HTTP.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::json;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::{POLL_INTERVAL, TRACE_TIMEOUT};
use devkit::children::Child;
use devkit::progress::Step;
use devkit::stack;

/// A running collector.
pub(super) struct Otel(Child);

/// Builds the collector if it is out of date and returns its path.
pub(super) async fn build(step: &Step) -> anyhow::Result<PathBuf> {
    step.note("building the collector from its Go modules, if missing (minutes)");
    let folder = stack::dev_path("collector")?;
    std::fs::create_dir_all(&folder)?;
    let program = folder.join("collector");
    let mut go = Command::new("go");
    go.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("collector"));
    go.args(["build", "-o"]).arg(&program).arg(".").kill_on_drop(true);
    let output = go.output().await.context("`go` is missing: the collector is built by Go")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.trim().lines().last().unwrap_or_default();
    ensure!(output.status.success(), "Go could not build the collector: {last}");
    Ok(program)
}

impl Otel {
    /// Starts a collector that listens on the port and forwards to this URL.
    pub(super) async fn start(program: &Path, port: u16, to: &str) -> anyhow::Result<Self> {
        // JSON is also YAML.
        let config = json!({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": format!("127.0.0.1:{port}")}}}},
            "exporters": {"otlphttp": {"endpoint": to, "compression": "none", "sending_queue": {"enabled": false}}},
            "service": {
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["otlphttp"]}},
                "telemetry": {"metrics": {"level": "none"}},
            },
        });
        let mut command = Command::new(program);
        command.arg(format!("--config=yaml:{config}"));
        let mut collector = Self(Child::spawn("collector", &mut command)?);
        tokio::select! {
            result = wait_until_listening(port) => result?,
            error = collector.0.wait_for_end() => return Err(error),
        }
        Ok(collector)
    }

    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.0.stop().await
    }
}

async fn wait_until_listening(port: u16) -> anyhow::Result<()> {
    let deadline = Instant::now() + TRACE_TIMEOUT;
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        ensure!(Instant::now() < deadline, "the collector does not listen");
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}
