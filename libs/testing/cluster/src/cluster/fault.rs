//! The faults of pods, the broker and the database.

use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::Instant;

use super::deployment::Deployment;
use super::environment::{Environment, NODES};
use super::kube::{Kube, Pod};
use devkit::children;
use devstack::services::ServiceEntry;

/// The roles of the charts.
pub(super) const ROLES: [&str; 2] = ["serve", "work"];
/// Time before each of the two checks that the pods have settled.
const SETTLE_TIME: Duration = Duration::from_secs(5);
/// Timeout until a disruption budget counts all pods again.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for which a node of the broker is down.
const NODE_DOWNTIME: Duration = Duration::from_secs(3);

/// The faults in the order of the report.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    Nothing,
    Upgrade(&'static str),
    RollBack(&'static str),
    Roll(&'static str),
    Delete,
    Evict,
    Kill,
    Broker,
    Database,
}

impl Fault {
    /// Returns all faults.
    pub(super) fn all(services: &[ServiceEntry], before: &[&'static str]) -> Vec<Self> {
        let mut all = vec![Self::Nothing];
        all.extend(
            before.iter().flat_map(|service| {
                [Self::Upgrade(service), Self::RollBack(service), Self::Upgrade(service)]
            }),
        );
        all.extend(services.iter().map(|service| Self::Roll(service.name)));
        all.extend([Self::Delete, Self::Evict, Self::Kill, Self::Broker, Self::Database]);
        all
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::Nothing => "none".to_owned(),
            Self::Upgrade(service) => format!("{service} is upgraded from the release before"),
            Self::RollBack(service) => format!("{service} is rolled back"),
            Self::Roll(service) => format!("{service} is rolled"),
            Self::Delete => "a pod of each role of each service is deleted".to_owned(),
            Self::Evict => "a pod of each role of each service is evicted".to_owned(),
            Self::Kill => "a process of each role of each service is killed with -9".to_owned(),
            Self::Broker => "each node of the broker is killed, one after the other".to_owned(),
            Self::Database => "the database crashes".to_owned(),
        }
    }

    /// Returns true if the fault must not make any request fail.
    pub(super) fn is_silent(self) -> bool {
        !matches!(self, Self::Kill | Self::Database)
    }

    /// Injects the fault and waits until all pods are ready. Returns the number of containers that
    /// ended by themselves.
    pub(super) async fn inject(
        self,
        deployment: &Deployment<'_>,
        environment: &mut Environment,
    ) -> anyhow::Result<usize> {
        let Deployment { kube, services, .. } = deployment;
        match self {
            Self::Nothing => {}
            Self::Upgrade(service) => deployment.upgrade(service).await?,
            Self::RollBack(service) => deployment.roll_back(service).await?,
            Self::Roll(service) => {
                let [serve, work] = ROLES.map(|role| format!("deployment/{service}-{role}"));
                kube.run(&["rollout", "restart", &serve, &work]).await?;
            }
            Self::Broker => {
                let broker = environment.broker.as_mut().context("there is no broker")?;
                for node in 0..usize::from(NODES) {
                    broker.kill(node).await?;
                    tokio::time::sleep(NODE_DOWNTIME).await;
                    broker.restart(node)?;
                    broker.wait_until_healthy().await?;
                }
            }
            Self::Database => environment.crash_database().await?,
            Self::Delete | Self::Evict | Self::Kill => {
                for service in *services {
                    for role in ROLES {
                        let pods = kube.pods(service.name, role).await?;
                        self.inject_into_pod(kube, &pods)
                            .await
                            .with_context(|| format!("{} {role}", service.name))?;
                    }
                }
            }
        }
        // Gives the cluster time to react to the change.
        tokio::time::sleep(SETTLE_TIME).await;
        kube.wait_until_settled().await?;
        // Endpoints follow readiness, and clients follow endpoints.
        tokio::time::sleep(SETTLE_TIME).await;
        kube.wait_until_settled().await
    }

    async fn inject_into_pod(self, kube: &Kube, pods: &[Pod]) -> anyhow::Result<()> {
        let [first, second, ..] = pods else { anyhow::bail!("there are fewer than two pods") };
        match self {
            Self::Delete => kube.run(&["delete", "pod", &first.name, "--wait=false"]).await.map(drop),
            Self::Evict => {
                let deadline = Instant::now() + EVICTION_TIMEOUT;
                while !kube.evict(first).await? {
                    ensure!(Instant::now() < deadline, "the disruption budget permits no eviction");
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                ensure!(!kube.evict(second).await?, "the disruption budget permits two evictions");
                Ok(())
            }
            _ => kill(first).await,
        }
    }
}

/// Kills the processes of a pod, which are processes of this machine.
async fn kill(pod: &Pod) -> anyhow::Result<()> {
    let processes = pod.processes()?.into_iter();
    let services: Vec<_> =
        processes.filter(|(_, program)| program.ends_with("usr/local/bin/service")).collect();
    ensure!(
        !services.is_empty(),
        "the processes of {} are not on this machine, or not visible to you",
        pod.name
    );
    for (process, _) in services {
        children::kill(process);
    }
    Ok(())
}
