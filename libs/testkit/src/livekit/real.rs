//! A real server of a test's own, and people who are connected to it.

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

/// A server. It ends when dropped.
pub struct RealLiveKit {
    port: u16,
    /// For media.
    tcp: u16,
    udp: u16,
    server: Option<Server>,
}

impl RealLiveKit {
    /// One that does not run yet: it is told where its webhooks go when it starts.
    ///
    /// # Errors
    /// When there are no free ports.
    pub fn new() -> anyhow::Result<Self> {
        // Any of those that `ports` gives is claimed by a socket for datagrams.
        let udp = UdpSocket::bind(("127.0.0.1", 0))?.local_addr()?.port();
        Ok(Self { port: ports::free()?, tcp: ports::free()?, udp, server: None })
    }

    /// Where it answers.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Starts it, or starts it again where it was; what it tells goes to this address.
    ///
    /// # Errors
    /// When there is none on this machine.
    pub fn start(&mut self, webhooks: &str) -> anyhow::Result<()> {
        let program = programs::server().context("no livekit-server here: `cargo dev livekit` brings one")?;
        // JSON is YAML, too. A machine may have no other address than its loopback's.
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

    /// Ends it as a failing machine would.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        match self.server.take() {
            Some(server) => server.kill().await,
            None => Ok(()),
        }
    }
}

/// Somebody who is connected, or was: LiveKit's own client, as a process that goes with this value.
pub struct Participant {
    process: Child,
    /// They leave when it is closed.
    input: Option<ChildStdin>,
    said: Lines<BufReader<ChildStdout>>,
}

impl Participant {
    /// Somebody who connects with a token, and publishes the silence of their `microphone` or what their `camera` sees.
    ///
    /// # Errors
    /// When there is no client on this machine.
    pub fn connect(url: &str, token: &str, publishes: &str) -> anyhow::Result<Self> {
        let mut command = Command::new(programs::client());
        command.arg(publishes).env("LIVEKIT_URL", url).env("LIVEKIT_TOKEN", token);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let process = command.spawn().context("no client of LiveKit here: `cargo dev livekit` brings one");
        let mut process = process?;
        let input = process.stdin.take();
        let output = process.stdout.take().context("no output")?;
        Ok(Self { process, input, said: BufReader::new(output).lines() })
    }

    /// Waits until they say something that begins so, and answers the rest of it.
    ///
    /// # Errors
    /// When they end without, or do not say it in time.
    pub async fn says(&mut self, beginning: &str) -> anyhow::Result<String> {
        let mut all = Vec::new();
        let heard = async {
            while let Some(line) = self.said.next_line().await? {
                if let Some(rest) = line.strip_prefix(beginning) {
                    return Ok(rest.trim_start().to_owned());
                }
                all.push(line);
            }
            bail!("they ended without")
        };
        let heard = timeout(*TIMEOUT, heard).await.context("they do not say it").flatten();
        heard.with_context(|| format!("waited for {beginning:?}, heard {all:?}"))
    }

    /// Waits until they are connected no longer, whether they ever were.
    ///
    /// # Errors
    /// When they still are.
    pub async fn is_sent_away(&mut self) -> anyhow::Result<()> {
        timeout(*TIMEOUT, self.process.wait()).await.context("they are still connected")??;
        Ok(())
    }

    /// Has them hang up, and waits until they have.
    ///
    /// # Errors
    /// When they do not.
    pub async fn leave(mut self) -> anyhow::Result<()> {
        drop(self.input.take());
        timeout(*TIMEOUT, self.process.wait()).await.context("they do not leave")??;
        Ok(())
    }

    /// Ends it as a failing machine would.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.process.kill().await?)
    }
}
