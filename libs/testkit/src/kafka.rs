//! A real Apache Kafka on this machine.
//!
//! A cluster has one node or several, each a broker and a controller (`KRaft`). Tests kill, freeze
//! and restart single nodes.

mod artifacts;
mod node;

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::future::{join_all, select_all};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::metadata::{Metadata, MetadataTopic};

use self::artifacts::classes;
pub use self::artifacts::{fetch, home};
use self::node::{Address, Node};
use crate::child;
use crate::signals::Signal;

/// Timeout for a cluster to become healthy. A cold node needs three seconds on a small machine, and
/// longer for a recovery.
const HEALTH_TIMEOUT: Duration = Duration::from_mins(2);

/// A running cluster. Its nodes are killed when the value is dropped or this process ends.
pub struct Cluster {
    nodes: Vec<Node>,
    /// The folder that is removed with the cluster.
    temporary: Option<PathBuf>,
}

impl Cluster {
    /// Starts a cluster on the data in `folder` and waits until it is healthy.
    ///
    /// Creates the folder if it is missing. The nodes listen at `host`, an address of this machine.
    /// All clusters of a folder have the same size.
    ///
    /// # Errors
    /// If [`fetch`] has not downloaded Kafka, or a node does not start. The error names the node's
    /// log.
    pub async fn start(folder: &Path, host: IpAddr, size: u16) -> anyhow::Result<Self> {
        let addresses = (1..=size).map(|id| Address::choose(id, host)).collect::<anyhow::Result<Vec<_>>>()?;
        let started = addresses.iter().map(|address| Node::create(folder, *address, &addresses));
        let nodes = join_all(started).await.into_iter().collect::<anyhow::Result<_>>()?;
        let mut cluster = Self { nodes, temporary: None };
        let result = tokio::select! {
            result = Self::wait_until_healthy_at(addresses) => result,
            error = cluster.wait_for_end() => Err(error),
        };
        result.map(|()| cluster)
    }

    /// Downloads Kafka if necessary and starts a cluster with temporary data.
    ///
    /// # Errors
    /// If [`fetch`] or [`Cluster::start`] fails.
    pub async fn start_temporary(size: u16) -> anyhow::Result<Self> {
        fetch().await?;
        Self::start_empty(size).await
    }

    async fn start_empty(size: u16) -> anyhow::Result<Self> {
        let folder = child::temporary(&home()?.join("temporary"));
        let mut cluster = Self::start(&folder, Ipv4Addr::LOCALHOST.into(), size).await?;
        cluster.temporary = Some(folder);
        Ok(cluster)
    }

    /// Returns the addresses for clients.
    pub fn bootstrap_servers(&self) -> String {
        self.nodes.iter().map(|node| node.address.broker()).collect::<Vec<_>>().join(",")
    }

    /// Kills a node with SIGKILL, as a failing machine would. Nodes are numbered from 0.
    ///
    /// # Errors
    /// If the node does not exist or is not running.
    pub async fn kill(&mut self, node: usize) -> anyhow::Result<()> {
        self.node(node)?.kill().await
    }

    /// Restarts a killed node with its address and its data.
    ///
    /// # Errors
    /// If the node does not exist, or does not start.
    pub fn restart(&mut self, node: usize) -> anyhow::Result<()> {
        self.node(node)?.start()
    }

    /// Freezes a node with SIGSTOP. It keeps its connections and does not respond.
    ///
    /// # Errors
    /// If the node does not exist or is not running.
    pub fn freeze(&mut self, node: usize) -> anyhow::Result<()> {
        self.node(node)?.signal(Signal::SIGSTOP)
    }

    /// Resumes a frozen node with SIGCONT.
    ///
    /// # Errors
    /// If the node does not exist or is not running.
    pub fn thaw(&mut self, node: usize) -> anyhow::Result<()> {
        self.node(node)?.signal(Signal::SIGCONT)
    }

    /// Waits until every node knows all others, and every partition has a leader and all its
    /// replicas in sync.
    ///
    /// # Errors
    /// If the timeout elapses.
    pub async fn wait_until_healthy(&self) -> anyhow::Result<()> {
        Self::wait_until_healthy_at(self.nodes.iter().map(|node| node.address).collect()).await
    }

    async fn wait_until_healthy_at(addresses: Vec<Address>) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + HEALTH_TIMEOUT;
        for address in &addresses {
            while !is_in_sync(address.broker(), addresses.len()).await? {
                if tokio::time::Instant::now() > deadline {
                    bail!("Kafka node {} is not healthy after {} s", address.id, HEALTH_TIMEOUT.as_secs());
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(())
    }

    /// Waits for the unexpected end of a node and returns its reason.
    pub async fn wait_for_end(&mut self) -> anyhow::Error {
        select_all(self.nodes.iter_mut().map(|node| Box::pin(node.wait_for_end()))).await.0
    }

    /// Stops the nodes and waits until they have written their data.
    ///
    /// # Errors
    /// If a node does not end and cannot be killed.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        join_all(self.nodes.iter_mut().map(Node::stop)).await.into_iter().collect()
    }

    fn node(&mut self, node: usize) -> anyhow::Result<&mut Node> {
        self.nodes.get_mut(node).with_context(|| format!("node {node} does not exist"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.clear();
        if let Some(folder) = &self.temporary {
            // A later run removes the rest.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Returns true if this broker knows `size` brokers and every partition is in sync.
async fn is_in_sync(broker: String, size: usize) -> anyhow::Result<bool> {
    // A new client each time, since a client that knows all brokers would request from any of them.
    let client: BaseConsumer = ClientConfig::new().set("bootstrap.servers", broker).create()?;
    let in_sync = move |metadata: Metadata| {
        let mut partitions = metadata.topics().iter().flat_map(MetadataTopic::partitions);
        metadata.brokers().len() == size
            && partitions.all(|partition| {
                partition.leader() >= 0 && partition.isr().len() == partition.replicas().len()
            })
    };
    let response =
        tokio::task::spawn_blocking(move || client.fetch_metadata(None, Duration::from_secs(1)).map(in_sync));
    Ok(response.await?.unwrap_or(false))
}
