//! The broker of the platform, and the fault of one of its nodes.

use testkit::broker::EmbeddedBroker;
use testkit::kafka::Cluster as Kafka;

use super::fault::NODES;
use devkit::bus::Kind;
use devkit::kafka;
use devkit::progress::Step;

/// Name of the broker's data folder.
const DATA: &str = "chaos";

/// The broker with the node that has a fault.
pub(super) struct Broker {
    servers: Servers,
    fault: Option<NodeFault>,
}

enum Servers {
    Embedded(EmbeddedBroker),
    Kafka(Kafka),
}

#[derive(Clone, Copy)]
pub(super) enum NodeFault {
    Killed(usize),
    Frozen(usize),
}

impl Broker {
    pub(super) async fn start(kind: Kind, topics: &[String], step: &Step) -> anyhow::Result<Self> {
        let servers = match kind {
            Kind::Embedded => Servers::Embedded(EmbeddedBroker::start(topics)?),
            Kind::Kafka => {
                kafka::delete_data(DATA)?;
                Servers::Kafka(kafka::start(DATA, kafka::LOOPBACK, NODES, step).await?)
            }
        };
        Ok(Self { servers, fault: None })
    }

    /// Returns the addresses for clients.
    pub(super) fn addresses(&self) -> anyhow::Result<String> {
        match &self.servers {
            Servers::Embedded(broker) => broker.bootstrap_servers(),
            Servers::Kafka(cluster) => Ok(cluster.bootstrap_servers()),
        }
    }

    /// Injects a fault of a node. Returns false if a node has a fault. The only node of the
    /// embedded broker can only be down.
    pub(super) async fn inject(&mut self, fault: NodeFault) -> anyhow::Result<bool> {
        if self.fault.is_some() {
            return Ok(false);
        }
        match (&mut self.servers, fault) {
            (Servers::Embedded(broker), _) => broker.cluster()?.broker_down(1)?,
            (Servers::Kafka(cluster), NodeFault::Killed(node)) => cluster.kill(node).await?,
            (Servers::Kafka(cluster), NodeFault::Frozen(node)) => cluster.freeze(node)?,
        }
        self.fault = Some(fault);
        Ok(true)
    }

    /// Ends the fault of a node, if there is one.
    pub(super) fn recover(&mut self) -> anyhow::Result<()> {
        let Some(fault) = self.fault.take() else { return Ok(()) };
        match (&mut self.servers, fault) {
            (Servers::Embedded(broker), _) => Ok(broker.cluster()?.broker_up(1)?),
            (Servers::Kafka(cluster), NodeFault::Killed(node)) => cluster.restart(node),
            (Servers::Kafka(cluster), NodeFault::Frozen(node)) => cluster.thaw(node),
        }
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        match self.servers {
            Servers::Embedded(_) => Ok(()),
            Servers::Kafka(cluster) => cluster.stop().await,
        }
    }
}
