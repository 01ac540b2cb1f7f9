//! What happens to pods and to what they stand on, and what those notice who use them meanwhile.

use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::Instant;

use super::deployment::Deployment;
use super::ground::{Ground, NODES};
use super::kube::{Kube, Pod};
use devkit::children;
use devstack::areas::Area;

/// The charts' two.
pub(super) const ROLES: [&str; 2] = ["serve", "work"];
/// For so long nothing happens, before and between.
const CALM: Duration = Duration::from_secs(5);
/// For so long it may take until a disruption budget knows that all are back.
const PATIENCE: Duration = Duration::from_secs(30);
/// For so long a node of the broker is away.
const AWAY: Duration = Duration::from_secs(3);

/// Something that happens, in the order of the table.
#[derive(Clone, Copy)]
pub(super) enum Trouble {
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

impl Trouble {
    /// All of them.
    pub(super) fn all(areas: &[Area], before: &[&'static str]) -> Vec<Self> {
        let mut all = vec![Self::Nothing];
        all.extend(
            before.iter().flat_map(|area| [Self::Upgrade(area), Self::RollBack(area), Self::Upgrade(area)]),
        );
        all.extend(areas.iter().map(|area| Self::Roll(area.name)));
        all.extend([Self::Delete, Self::Evict, Self::Kill, Self::Broker, Self::Database]);
        all
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Upgrade(area) => format!("{area} is upgraded from the release before"),
            Self::RollBack(area) => format!("{area} is rolled back to it"),
            Self::Roll(area) => format!("{area} is rolled"),
            Self::Delete => "a pod of each role of each area is deleted".to_owned(),
            Self::Evict => "a pod of each role of each area is evicted".to_owned(),
            Self::Kill => "a process of each role of each area is killed with -9".to_owned(),
            Self::Broker => "each node of the broker is killed, one after the other".to_owned(),
            Self::Database => "the database crashes".to_owned(),
        }
    }

    /// Whether nobody may notice it.
    pub(super) fn is_silent(self) -> bool {
        !matches!(self, Self::Kill | Self::Database)
    }

    /// Brings it about, and waits until all is well again; answers how many containers have ended by themselves.
    pub(super) async fn befall(
        self,
        deployment: &Deployment<'_>,
        ground: &mut Ground,
    ) -> anyhow::Result<usize> {
        let Deployment { kube, areas, .. } = deployment;
        match self {
            Self::Nothing => {}
            Self::Upgrade(area) => deployment.upgrade(area).await?,
            Self::RollBack(area) => deployment.roll_back(area).await?,
            Self::Roll(area) => {
                let [serve, work] = ROLES.map(|role| format!("deployment/{area}-{role}"));
                kube.run(&["rollout", "restart", &serve, &work]).await?;
            }
            Self::Broker => {
                let broker = ground.broker.as_mut().context("there is no broker")?;
                for node in 0..usize::from(NODES) {
                    broker.kill(node).await?;
                    tokio::time::sleep(AWAY).await;
                    broker.restart(node)?;
                    broker.healthy().await?;
                }
            }
            Self::Database => ground.crash_database().await?,
            Self::Delete | Self::Evict | Self::Kill => {
                for area in *areas {
                    for role in ROLES {
                        let pods = kube.pods(area.name, role).await?;
                        self.befall_pod(kube, &pods)
                            .await
                            .with_context(|| format!("{} {role}", area.name))?;
                    }
                }
            }
        }
        // Until the cluster knows of it.
        tokio::time::sleep(CALM).await;
        kube.settled().await?;
        // Endpoints follow readiness, and who uses them follows endpoints.
        tokio::time::sleep(CALM).await;
        kube.settled().await
    }

    async fn befall_pod(self, kube: &Kube, pods: &[Pod]) -> anyhow::Result<()> {
        let [first, second, ..] = pods else { anyhow::bail!("there are no two pods") };
        match self {
            Self::Delete => kube.run(&["delete", "pod", &first.name, "--wait=false"]).await.map(drop),
            Self::Evict => {
                let deadline = Instant::now() + PATIENCE;
                while !kube.evict(first).await? {
                    ensure!(Instant::now() < deadline, "the disruption budget lets none be evicted");
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                ensure!(!kube.evict(second).await?, "the disruption budget lets both be evicted");
                Ok(())
            }
            _ => kill(first).await,
        }
    }
}

/// Kills a pod's processes as a failing machine would, where they are this machine's: a container is no more than that.
async fn kill(pod: &Pod) -> anyhow::Result<()> {
    let processes = pod.processes()?.into_iter();
    let services: Vec<_> =
        processes.filter(|(_, program)| program.ends_with("usr/local/bin/service")).collect();
    ensure!(
        !services.is_empty(),
        "the processes of {} are not on this machine, or not for you to see",
        pod.name
    );
    for (process, _) in services {
        children::kill(process);
    }
    Ok(())
}
