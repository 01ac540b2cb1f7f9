//! A real Apache Kafka on this machine: one node or several, each broker and controller (`KRaft`), that
//! can be killed, frozen and brought back one by one.

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

/// From a cold start one node takes three seconds on a small machine; recovery takes longer.
const PATIENCE: Duration = Duration::from_mins(2);

/// A running cluster. What is left of it when it is dropped, or when this process dies, is killed.
pub struct Cluster {
    nodes: Vec<Node>,
    /// Goes with the cluster.
    temporary: Option<PathBuf>,
}

impl Cluster {
    /// Starts a cluster on the data in `folder`, which is made where it is missing, and answers when it
    /// is healthy. Its nodes listen at an address of this machine. A folder belongs to clusters of one size.
    ///
    /// # Errors
    /// When [`fetch`] has not brought Kafka yet, or a node does not start; its log says why.
    pub async fn start(folder: &Path, host: IpAddr, size: u16) -> anyhow::Result<Self> {
        let addresses = (1..=size).map(|id| Address::choose(id, host)).collect::<anyhow::Result<Vec<_>>>()?;
        let started = addresses.iter().map(|address| Node::create(folder, *address, &addresses));
        let nodes = join_all(started).await.into_iter().collect::<anyhow::Result<_>>()?;
        let mut cluster = Self { nodes, temporary: None };
        let result = tokio::select! {
            result = Self::healthy_at(addresses) => result,
            error = cluster.ended() => Err(error),
        };
        result.map(|()| cluster)
    }

    /// Brings Kafka if need be and starts a cluster of a test's own, whose data goes with it.
    ///
    /// # Errors
    /// Those of [`fetch`] and [`Cluster::start`].
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

    /// Where clients connect.
    pub fn bootstrap_servers(&self) -> String {
        self.nodes.iter().map(|node| node.address.broker()).collect::<Vec<_>>().join(",")
    }

    /// Kills a node, counted from 0, as a failing machine would: `kill -9`.
    ///
    /// # Errors
    /// When there is no such node, or it does not run.
    pub async fn kill(&mut self, node: usize) -> anyhow::Result<()> {
        self.node(node)?.kill().await
    }

    /// Starts a node again that was killed, where it was and on its data.
    ///
    /// # Errors
    /// When there is no such node, or it cannot be run.
    pub fn restart(&mut self, node: usize) -> anyhow::Result<()> {
        self.node(node)?.start()
    }

    /// Freezes a node: it keeps its connections, but does nothing (SIGSTOP).
    ///
    /// # Errors
    /// When there is no such node, or it does not run.
    pub fn freeze(&mut self, node: usize) -> anyhow::Result<()> {
        self.node(node)?.signal(Signal::SIGSTOP)
    }

    /// Lets a frozen node go on (SIGCONT).
    ///
    /// # Errors
    /// When there is no such node, or it does not run.
    pub fn thaw(&mut self, node: usize) -> anyhow::Result<()> {
        self.node(node)?.signal(Signal::SIGCONT)
    }

    /// Waits until every node answers, each knows all the others, and every partition has a leader and
    /// all its replicas in sync.
    ///
    /// # Errors
    /// When that takes too long.
    pub async fn healthy(&self) -> anyhow::Result<()> {
        Self::healthy_at(self.nodes.iter().map(|node| node.address).collect()).await
    }

    async fn healthy_at(addresses: Vec<Address>) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        for address in &addresses {
            while !is_whole(address.broker(), addresses.len()).await? {
                if tokio::time::Instant::now() > deadline {
                    bail!("Kafka's node {} is not healthy within {} s", address.id, PATIENCE.as_secs());
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(())
    }

    /// Resolves with the reason when a node ends although nobody stopped it.
    pub async fn ended(&mut self) -> anyhow::Error {
        select_all(self.nodes.iter_mut().map(|node| Box::pin(node.ended()))).await.0
    }

    /// Stops the nodes and waits until they have written what they had.
    ///
    /// # Errors
    /// When a node cannot be waited for.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        join_all(self.nodes.iter_mut().map(Node::stop)).await.into_iter().collect()
    }

    fn node(&mut self, node: usize) -> anyhow::Result<&mut Node> {
        self.nodes.get_mut(node).with_context(|| format!("there is no node {node}"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.clear();
        if let Some(folder) = &self.temporary {
            // What is not removed now is removed by a later run.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Whether this broker answers and knows of so many, with every partition whole.
async fn is_whole(broker: String, size: usize) -> anyhow::Result<bool> {
    // A client of its own each time: one that knows the others would ask any of them.
    let client: BaseConsumer = ClientConfig::new().set("bootstrap.servers", broker).create()?;
    let whole = move |metadata: Metadata| {
        let mut partitions = metadata.topics().iter().flat_map(MetadataTopic::partitions);
        metadata.brokers().len() == size
            && partitions.all(|partition| {
                partition.leader() >= 0 && partition.isr().len() == partition.replicas().len()
            })
    };
    let answer =
        tokio::task::spawn_blocking(move || client.fetch_metadata(None, Duration::from_secs(1)).map(whole));
    Ok(answer.await?.unwrap_or(false))
}
