//! A real LiveKit server of a test, and participants that are connected to it.

use std::net::UdpSocket;
use std::process::Stdio;

use anyhow::{Context, bail};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::{KEY, SECRET, programs};
use crate::child::Server;
use crate::{TIMEOUT, ports};

/// A server. Dropping it kills the server.
pub struct RealLiveKit {
    port: u16,
    /// Ports for media.
    tcp: u16,
    udp: u16,
    server: Option<Server>,
}

impl RealLiveKit {
    /// Chooses the ports of a server, without starting it. A caller may need the URL of the server
    /// before it knows the URL of the webhooks.
    ///
    /// # Errors
    /// If there are no free ports.
    pub fn new() -> anyhow::Result<Self> {
        // Not from `ports`, which claims each port by a UDP socket.
        let udp = UdpSocket::bind(("127.0.0.1", 0))?.local_addr()?.port();
        Ok(Self { port: ports::free()?, tcp: ports::free()?, udp, server: None })
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Starts or restarts the server on its ports. It sends webhooks to this URL.
    ///
    /// # Errors
    /// If the program is missing.
    pub fn start(&mut self, webhooks: &str) -> anyhow::Result<()> {
        let program = programs::server().context("`livekit-server` is missing: run `cargo dev livekit`")?;
        // JSON is valid YAML. A machine may have no address but its loopback address.
        let config = json!({
            "port": self.port, "keys": {KEY: SECRET}, "webhook": {"api_key": KEY, "urls": [webhooks]},
            "rtc": {"tcp_port": self.tcp, "udp_port": self.udp, "enable_loopback_candidate": true},
        });
        let mut command = Command::new(program);
        command.args(["--dev", "--bind", "127.0.0.1", "--config-body", &config.to_string()]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.server = Some(Server::spawn(&mut command)?);
        Ok(())
    }

    /// Kills the server, as a failing machine would.
    ///
    /// # Errors
    /// If the server cannot be killed.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        match self.server.take() {
            Some(server) => server.kill().await,
            None => Ok(()),
        }
    }
}

/// A participant: a process of LiveKit's client. Dropping it kills the process.
pub struct Participant {
    process: Child,
    /// The participant leaves when this input is closed.
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Participant {
    /// Connects with a token, and publishes empty samples of a `microphone` or a `camera`.
    ///
    /// # Errors
    /// If the client program is missing.
    pub fn connect(url: &str, token: &str, publishes: &str) -> anyhow::Result<Self> {
        let mut command = Command::new(programs::client());
        command.arg(publishes).env("LIVEKIT_URL", url).env("LIVEKIT_TOKEN", token);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let process = command.spawn().context("LiveKit's client is missing: run `cargo dev livekit`");
        let mut process = process?;
        let input = process.stdin.take();
        let output = process.stdout.take().context("no output")?;
        Ok(Self { process, input, output: BufReader::new(output).lines() })
    }

    /// Waits for a line of the client's output with this prefix, and returns its rest.
    ///
    /// # Errors
    /// If the client ends, or the timeout elapses.
    pub async fn wait_for_line(&mut self, prefix: &str) -> anyhow::Result<String> {
        let mut all = Vec::new();
        let found = async {
            while let Some(line) = self.output.next_line().await? {
                if let Some(rest) = line.strip_prefix(prefix) {
                    return Ok(rest.trim_start().to_owned());
                }
                all.push(line);
            }
            bail!("the client has ended")
        };
        let found = timeout(*TIMEOUT, found).await.context("the line did not arrive").flatten();
        found.with_context(|| format!("no line {prefix:?} among {all:?}"))
    }

    /// Waits until the client has ended because it is disconnected or was never admitted.
    ///
    /// # Errors
    /// If the client is still connected after the timeout.
    pub async fn wait_until_disconnected(&mut self) -> anyhow::Result<()> {
        timeout(*TIMEOUT, self.process.wait()).await.context("the participant is still connected")??;
        Ok(())
    }

    /// Leaves the call and waits for the end of the client.
    ///
    /// # Errors
    /// If the client does not end.
    pub async fn leave(mut self) -> anyhow::Result<()> {
        drop(self.input.take());
        timeout(*TIMEOUT, self.process.wait()).await.context("the participant did not leave")??;
        Ok(())
    }

    /// Kills the client, as a failing machine would.
    ///
    /// # Errors
    /// If the client cannot be killed.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.process.kill().await?)
    }
}
