//! The database, the broker and the issuer on this machine, which pods use.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

use anyhow::Context;
use testkit::issuer::{Issuer, RunningIssuer};
use testkit::kafka::Cluster as Kafka;

use devkit::kafka;
use devkit::postgres::{self, Cluster};
use devkit::progress::Step;
use devkit::stack;
use devstack::services::ServiceEntry;

/// The number of nodes in production. Each message is on three nodes and acknowledged by two.
pub(super) const NODES: u16 = 3;
/// Name of the broker's data folder.
const DATA: &str = "cluster";

pub(super) struct Environment {
    pub(super) address: IpAddr,
    pub(super) issuer: RunningIssuer,
    pub(super) database: Cluster,
    pub(super) broker: Option<Kafka>,
    /// Passwords of the services' roles. Each role owns its schema and sees no other.
    passwords: BTreeMap<&'static str, String>,
}

impl Environment {
    /// Prepares everything that need not be stopped. [`Environment::start`] starts the rest.
    pub(super) async fn prepare(node: IpAddr, services: &[ServiceEntry]) -> anyhow::Result<Self> {
        let address = own_address_for(node)?;
        let listener = TcpListener::bind((address, 0))?;
        let url = format!("http://{}", listener.local_addr()?);
        // The key of this clone, with which the demo and `cargo dev token` sign.
        let issuer = Issuer::load_or_create(&stack::dev_path("issuer.key")?, url)?.serve(listener)?;
        let mut database = Cluster::prepare(Cluster::PODS, true, &Step::start("database")).await?;
        database.listen_at(address);
        let passwords = services.iter().map(|service| (service.name, devkit::random_hex())).collect();
        Ok(Self { address, issuer, database, broker: None, passwords })
    }

    pub(super) async fn start(&mut self) -> anyhow::Result<()> {
        let step = Step::start("database");
        self.database.start(&step).await?;
        let server = postgres::connect(&self.database.url()).await?;
        for (service, password) in &self.passwords {
            let role = format!(
                "create role {service} login password '{password}'; grant create on database platform to {service}"
            );
            server.client.batch_execute(&role).await.context(*service)?;
        }
        step.done(self.database.describe());
        let step = Step::start("broker");
        kafka::delete_data(DATA)?;
        let broker = self.broker.insert(kafka::start(DATA, self.address, NODES, &step).await?);
        step.done(broker.bootstrap_servers());
        Ok(())
    }

    pub(super) fn brokers(&self) -> String {
        self.broker.as_ref().map(Kafka::bootstrap_servers).unwrap_or_default()
    }

    /// Returns the database URL of a service for its pods.
    pub(super) fn database_url(&self, service: &str) -> anyhow::Result<String> {
        let password = self.passwords.get(service).with_context(|| format!("{service} has no role"))?;
        Ok(self.database.url_at(self.address, service, password))
    }

    /// Returns the ports that pods must reach, by the names in the network policies.
    pub(super) fn ports(&self) -> anyhow::Result<[(&'static str, Vec<u16>); 3]> {
        let port = |place: &str| place.parse::<SocketAddr>().map(|place| place.port());
        let issuer = self.issuer.url().trim_start_matches("http://");
        Ok([
            ("postgres", vec![self.database.port()]),
            ("kafka", self.brokers().split(',').map(port).collect::<Result<_, _>>()?),
            ("issuer", vec![port(issuer)?]),
        ])
    }

    /// Crashes the database as a power cut does, and starts it again.
    pub(super) async fn crash_database(&mut self) -> anyhow::Result<()> {
        self.database.crash().await?;
        self.database.start(&Step::start("database")).await
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        if let Some(broker) = self.broker {
            broker.stop().await?;
        }
        self.database.stop().await.map(drop)
    }
}

/// Returns the address of this machine as the node sees it. No packet is sent.
fn own_address_for(node: IpAddr) -> anyhow::Result<IpAddr> {
    let any: IpAddr = if node.is_ipv4() { [0, 0, 0, 0].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(SocketAddr::new(node, 9)).with_context(|| format!("there is no route to {node}"))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::own_address_for;

    #[test]
    fn own_address_for_loopback_node_is_loopback() {
        let loopback = std::net::IpAddr::from([127, 0, 0, 1]);
        assert_eq!(own_address_for(loopback).unwrap(), loopback);
    }
}
