//! `cargo dev kafka`: a real Apache Kafka of this clone's own, in the foreground.

use std::net::{IpAddr, Ipv4Addr};

use clap::Args;
use console::style;
use testkit::kafka::{self, Cluster};

use crate::progress::Step;
use crate::signals::Signals;
use crate::stack::Lock;

/// Where nobody but this machine finds it.
pub const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Run a real Apache Kafka until Ctrl-C; needs Java 17 or later and Maven
///
/// One node, or three as in production: every message on three, acknowledged by two. What it keeps lies
/// in .dev/kafka, apart for each number of nodes, and is there again the next time.
#[derive(Args)]
pub struct Kafka {
    /// How many nodes
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=5))]
    nodes: u16,
    /// Forget what it has kept
    #[arg(long)]
    fresh: bool,
    /// Only bring what it needs, and say whether it could run here
    #[arg(long)]
    fetch: bool,
}

impl Kafka {
    pub async fn run(self) -> anyhow::Result<()> {
        if self.fetch {
            return kafka::fetch().await;
        }
        let mut signals = Signals::listen()?;
        let _lock = Lock::take("kafka")?;
        let name = format!("nodes-{}", self.nodes);
        if self.fresh {
            forget(&name)?;
        }
        let step = Step::start("kafka");
        let mut cluster = tokio::select! {
            cluster = start(&name, LOOPBACK, self.nodes, &step) => cluster?,
            () = signals.stop() => return Ok(()),
        };
        step.done(format!("data in .dev/kafka/{name}"));
        crate::say(&format!(
            "KAFKA_BROKERS={}\n{}",
            cluster.bootstrap_servers(),
            style("Ctrl-C stops it.").dim()
        ));
        let result = tokio::select! {
            error = cluster.ended() => Err(error),
            () = signals.stop() => Ok(()),
        };
        let stopped = cluster.stop().await;
        result.and(stopped)
    }
}

/// Starts a cluster on what it has kept under this name, at an address of this machine.
pub async fn start(name: &str, host: IpAddr, nodes: u16, step: &Step) -> anyhow::Result<Cluster> {
    step.note("bringing Apache Kafka with Maven, if it is not here (54 MB)");
    kafka::fetch().await?;
    step.note("starting");
    Cluster::start(&kafka::home()?.join(name), host, nodes).await
}

/// Drops what a cluster has kept.
pub fn forget(name: &str) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(kafka::home()?.join(name)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
