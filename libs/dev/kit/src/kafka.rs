//! `cargo dev kafka`: an Apache Kafka of this clone, in the foreground.

use std::net::{IpAddr, Ipv4Addr};

use clap::Args;
use console::style;
use testkit::kafka::{self, Cluster};

use crate::progress::Step;
use crate::signals::Signals;
use crate::stack::Lock;

/// The address that only this machine reaches.
pub const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Run a real Apache Kafka until Ctrl-C; needs Java 17 or later and Maven
///
/// With --nodes 3, as in production, each message is on three nodes, and two of them must have it
/// before the acknowledgement. The data is in .dev/kafka, in a folder for each number of nodes, and
/// outlives the command.
#[derive(Args)]
pub struct Kafka {
    /// Number of nodes
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=5))]
    nodes: u16,
    /// Delete the data of earlier runs
    #[arg(long)]
    fresh: bool,
    /// Only install Apache Kafka, and report whether it can run here
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
            delete_data(&name)?;
        }
        let step = Step::start("kafka");
        let mut cluster = tokio::select! {
            cluster = start(&name, LOOPBACK, self.nodes, &step) => cluster?,
            () = signals.stop() => return Ok(()),
        };
        step.done(format!("data in .dev/kafka/{name}"));
        crate::print_line(&format!(
            "KAFKA_BROKERS={}\n{}",
            cluster.bootstrap_servers(),
            style("Ctrl-C stops it.").dim()
        ));
        let result = tokio::select! {
            error = cluster.wait_for_end() => Err(error),
            () = signals.stop() => Ok(()),
        };
        let stopped = cluster.stop().await;
        result.and(stopped)
    }
}

/// Starts a cluster on the data under this name, at an address of this machine.
pub async fn start(name: &str, host: IpAddr, nodes: u16, step: &Step) -> anyhow::Result<Cluster> {
    step.note("installing Apache Kafka with Maven, if missing (54 MB)");
    kafka::fetch().await?;
    step.note("starting");
    Cluster::start(&kafka::home()?.join(name), host, nodes).await
}

/// Deletes the data of a cluster.
pub fn delete_data(name: &str) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(kafka::home()?.join(name)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
