//! A node of a cluster: its folder, settings and process.

use std::fs::OpenOptions;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::process::Command;

use super::{classes, home};
use crate::child::Server;
use crate::ports;
use crate::signals::Signal;

/// The id of all clusters: 16 bytes in base64.
const CLUSTER_ID: &str = "bG9jYWwtZGV2LXN0YWNrMA";
/// Timeout of a graceful shutdown. When all nodes stop together, the last ones have no quorum and
/// do not end.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// The addresses of a node.
#[derive(Clone, Copy)]
pub(super) struct Address {
    pub(super) id: u16,
    host: IpAddr,
    port: u16,
    controller: u16,
}

impl Address {
    /// Chooses two free ports.
    pub(super) fn choose(id: u16, host: IpAddr) -> anyhow::Result<Self> {
        Ok(Self { id, host, port: ports::free()?, controller: ports::free()? })
    }

    pub(super) fn broker(self) -> String {
        SocketAddr::new(self.host, self.port).to_string()
    }

    fn voter(self) -> String {
        format!("{}@{}", self.id, self.quorum())
    }

    /// Returns the address for the other nodes.
    fn quorum(self) -> SocketAddr {
        SocketAddr::new(self.host, self.controller)
    }
}

pub(super) struct Node {
    pub(super) address: Address,
    folder: PathBuf,
    /// `None` after the node was killed or stopped.
    process: Option<Server>,
}

impl Node {
    /// Writes the settings, formats new storage, and starts the node.
    pub(super) async fn create(folder: &Path, address: Address, all: &[Address]) -> anyhow::Result<Self> {
        let folder = folder.join(format!("node-{}", address.id));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("server.properties"), settings(&folder, address, all))?;
        let mut node = Self { address, folder, process: None };
        if !node.folder.join("data/meta.properties").exists() {
            let mut format = node.java()?;
            format
                .args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c"])
                .arg(node.folder.join("server.properties"));
            ensure!(
                format.status().await?.success(),
                "failed to format Kafka's storage: {}",
                node.last_log_line()
            );
        }
        node.start()?;
        Ok(node)
    }

    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        ensure!(self.process.is_none(), "node {} is already running", self.address.id);
        let classes = classes()?;
        let read_or_write = if classes.exists() { "SharedArchiveFile" } else { "ArchiveClassesAtExit" };
        let mut server = self.java()?;
        server.arg(format!("-XX:{read_or_write}={}", classes.display())).arg("kafka.Kafka");
        self.process = Some(Server::spawn(server.arg(self.folder.join("server.properties")))?);
        Ok(())
    }

    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        self.process.take().context("the node is not running")?.kill().await
    }

    pub(super) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let process = self.process.as_ref().context("the node is not running")?;
        process.signal(signal).with_context(|| format!("node {}", self.address.id))
    }

    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        if self.process.is_none() {
            return Ok(());
        }
        // The process may have ended already.
        let _ = self.signal(Signal::SIGTERM);
        let Some(mut process) = self.process.take() else { return Ok(()) };
        match tokio::time::timeout(STOP_TIMEOUT, process.wait()).await {
            Ok(_) => Ok(()),
            Err(_) => process.kill().await,
        }
    }

    pub(super) async fn wait_for_end(&mut self) -> anyhow::Error {
        match &mut self.process {
            Some(process) => match process.wait().await {
                Ok(status) => {
                    anyhow::anyhow!(
                        "Kafka node {} ended ({status}): {}",
                        self.address.id,
                        self.last_log_line()
                    )
                }
                Err(error) => error.into(),
            },
            None => std::future::pending().await,
        }
    }

    /// Returns a Java command that logs into the node's folder. The caller adds the class to run.
    fn java(&self) -> anyhow::Result<Command> {
        let log = OpenOptions::new().create(true).append(true).open(self.log())?;
        let mut java = Command::new("java");
        java.args(["-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp"])
            .arg(home()?.join("libs/*"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(java)
    }

    fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    /// Returns the last line of the log and the path of the log.
    fn last_log_line(&self) -> String {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        format!("{line} (see {})", self.log().display())
    }
}

/// Returns the settings of a node.
///
/// Durability is as in production. No topic is created automatically. With three nodes, a message
/// has three replicas, and two of them must have it before the acknowledgement. Timeouts are short:
/// groups do not wait for further members, and dead members are detected soon.
fn settings(folder: &Path, address: Address, all: &[Address]) -> String {
    let voters: Vec<_> = all.iter().copied().map(Address::voter).collect();
    let replicas = all.len().min(3);
    let in_sync = replicas.div_ceil(2);
    format!(
        "process.roles=broker,controller\n\
         node.id={id}\n\
         controller.quorum.voters={voters}\n\
         listeners=PLAINTEXT://{broker},CONTROLLER://{quorum}\n\
         controller.listener.names=CONTROLLER\n\
         log.dirs={data}\n\
         broker.session.timeout.ms=6000\n\
         broker.heartbeat.interval.ms=1000\n\
         replica.lag.time.max.ms=5000\n\
         auto.create.topics.enable=false\n\
         default.replication.factor={replicas}\n\
         min.insync.replicas={in_sync}\n\
         offsets.topic.num.partitions=5\n\
         offsets.topic.replication.factor={replicas}\n\
         transaction.state.log.num.partitions=5\n\
         transaction.state.log.replication.factor={replicas}\n\
         transaction.state.log.min.isr={in_sync}\n\
         share.coordinator.state.topic.num.partitions=5\n\
         share.coordinator.state.topic.replication.factor={replicas}\n\
         share.coordinator.state.topic.min.isr={in_sync}\n\
         group.initial.rebalance.delay.ms=0\n\
         group.min.session.timeout.ms=1000\n",
        id = address.id,
        voters = voters.join(","),
        broker = address.broker(),
        quorum = address.quorum(),
        data = folder.join("data").display(),
    )
}
