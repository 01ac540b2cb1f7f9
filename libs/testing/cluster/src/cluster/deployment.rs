//! The areas in the cluster: each by its own chart, with the values that this machine gives it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Value, json};
use testkit::issuer::CLIENTS;

use super::ground::Ground;
use super::images::{Images, Release};
use super::kube::{Kube, helm};
use devkit::Settings;
use devkit::files;
use devkit::livekit;
use devkit::stack::{self, State, Urls};
use devstack::areas::Area;

/// Of each role, as the charts have it.
const REPLICAS: &str = "2";
const MESSENGER: &str = "messenger";
/// What of messenger's settings belongs into its Secret.
const LIVEKIT_KEYS: [&str; 2] = ["LIVEKIT_API_KEY", "LIVEKIT_API_SECRET"];

/// What an area is told: its name, the variable, the value.
pub(super) type Setting = (&'static str, &'static str, &'static str);

pub(super) struct Deployment<'a> {
    pub(super) kube: &'a Kube,
    pub(super) areas: &'a [Area],
    pub(super) images: Images<'a>,
    /// The charts with what they depend on.
    charts: PathBuf,
}

impl<'a> Deployment<'a> {
    /// Packs the charts' dependencies in a copy, so that the charts stay as they are.
    pub(super) async fn prepare(
        kube: &'a Kube,
        areas: &'a [Area],
        images: Images<'a>,
    ) -> anyhow::Result<Self> {
        let folder = stack::dev("cluster")?;
        let charts = folder.join("helm");
        std::fs::create_dir_all(&folder)?;
        if charts.exists() {
            std::fs::remove_dir_all(&charts)?;
        }
        files::copy_folder(&stack::root().join("helm"), &charts)?;
        for Area { name, .. } in areas {
            let chart = charts.join(name).display().to_string();
            helm(&["dependency", "update", "--skip-refresh", &chart]).await?;
        }
        Ok(Self { kube, areas, images, charts })
    }

    /// Who besides areas is let in: whoever comes, since the edge is no pod.
    pub(super) fn anybody() -> Value {
        let anybody = json!([{"ipBlock": {"cidr": "0.0.0.0/0"}}]);
        json!({"public": anybody, "internal": anybody, "admin": anybody})
    }

    /// What each area keeps secret, and the way into it from outside of the cluster.
    pub(super) async fn furnish(&self, ground: &Ground) -> anyhow::Result<()> {
        for area in self.areas {
            let mut secret = BTreeMap::from([("DATABASE_URL", ground.database_url(area.name)?)]);
            if let Some((_, password)) = CLIENTS.iter().find(|(client, _)| *client == area.name) {
                secret.insert("CLIENT_SECRET", (*password).to_owned());
            }
            if area.name == MESSENGER {
                let settings = livekit::settings(false).into_iter();
                secret.extend(settings.filter(|(name, _)| LIVEKIT_KEYS.contains(name)));
            }
            let metadata = json!({"name": area.name});
            let secret =
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": secret});
            self.kube.apply(&secret).await?;
            let selector =
                json!({"app.kubernetes.io/name": area.name, "app.kubernetes.io/component": "serve"});
            let mut ports = vec![
                json!({"name": "public", "port": 80, "targetPort": "public"}),
                json!({"name": "admin", "port": 9090, "targetPort": "admin"}),
            ];
            if area.url_variable.is_some() {
                ports.push(json!({"name": "internal", "port": 81, "targetPort": "internal"}));
            }
            self.kube
                .apply(&json!({
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": edge(area.name)},
                    "spec": {"type": "NodePort", "selector": selector, "ports": ports},
                }))
                .await?;
        }
        Ok(())
    }

    /// Installs every area's chart, or upgrades it to other settings, and waits until all is there. `ingress` tells who besides
    /// areas is let in.
    pub(super) async fn install(
        &self,
        ground: &Ground,
        release: Release,
        settings: &[Setting],
        ingress: &Value,
    ) -> anyhow::Result<()> {
        for area in self.areas {
            let path = stack::dev("cluster")?.join(format!("{}.json", area.name));
            let values = self.values(ground, area.name, release, settings, ingress)?;
            std::fs::write(&path, serde_json::to_vec_pretty(&values)?)?;
            let (chart, values) =
                (self.charts.join(area.name).display().to_string(), path.display().to_string());
            helm(&[
                "upgrade",
                "--install",
                area.name,
                &chart,
                "--namespace",
                &self.kube.namespace,
                "--values",
                &values,
            ])
            .await
            .with_context(|| area.name)?;
        }
        self.kube.settled().await.map(drop)
    }

    /// Upgrades an area to this release, with the values that it has.
    pub(super) async fn upgrade(&self, area: &str) -> anyhow::Result<()> {
        let chart = self.charts.join(area).display().to_string();
        let tag = format!("app.image.tag={}", self.images.tag(area, Release::This));
        let (namespace, set) = (self.kube.namespace.as_str(), tag.as_str());
        helm(&["upgrade", area, &chart, "--namespace", namespace, "--reuse-values", "--set-string", set])
            .await
            .map(drop)
    }

    /// Brings the release before back.
    pub(super) async fn roll_back(&self, area: &str) -> anyhow::Result<()> {
        helm(&["rollback", area, "--namespace", &self.kube.namespace]).await.map(drop)
    }

    /// The values of an area, with its own of these settings.
    fn values(
        &self,
        ground: &Ground,
        area: &str,
        release: Release,
        settings: &[Setting],
        ingress: &Value,
    ) -> anyhow::Result<Value> {
        let own = settings.iter().filter(|(of, ..)| *of == area);
        let mut own: Settings = own.map(|(_, name, value)| (*name, (*value).to_owned())).collect();
        let mut secret_keys = json!({});
        if area == MESSENGER {
            own.extend(livekit::settings(false).into_iter().filter(|(name, _)| !LIVEKIT_KEYS.contains(name)));
            secret_keys = json!({LIVEKIT_KEYS[0]: true, LIVEKIT_KEYS[1]: true});
        }
        // All areas fit on a machine of two cores, beside what they stand on.
        let modest = json!({"requests": {"cpu": "20m", "memory": "64Mi"}});
        let ports = ground.ports()?.into_iter().chain([("dns", vec![53])]);
        let egress = ports.map(|(name, ports)| (name, json!({"ports": ports, "to": []})));
        Ok(json!({
            "global": {
                "imageRegistry": self.images.prefix,
                "config": {
                    "KAFKA_BROKERS": ground.brokers(),
                    "AUTH_ISSUER": ground.issuer.url(),
                    // Whoever stands before the pods has a private address, or this machine's.
                    "TRUSTED_PROXIES": format!("{}/32,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16", ground.address),
                    // All pods share one small PostgreSQL.
                    "DATABASE_POOL_SIZE": "5",
                },
            },
            "app": {
                "image": {"tag": self.images.tag(area, release)},
                "existingSecret": area,
                "secretKeys": secret_keys,
                "serve": {"resources": modest},
                "work": {"resources": modest},
                "config": own,
                "networkPolicy": {
                    "ingress": ingress,
                    "egress": egress.collect::<BTreeMap<_, _>>(),
                },
            },
        }))
    }

    /// Where the areas are found from outside of the cluster.
    pub(super) async fn urls(&self) -> anyhow::Result<BTreeMap<String, Urls>> {
        let mut urls = BTreeMap::new();
        for area in self.areas {
            let service = self.kube.run(&["get", "service", &edge(area.name), "--output=json"]).await?;
            let service: Value = serde_json::from_str(&service)?;
            let url = |name: &str| {
                let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
                let port = ports.find(|port| port["name"] == name)?["nodePort"].as_u64()?;
                Some(format!("http://{}:{port}", self.kube.node))
            };
            let found = Urls {
                public_url: url("public").context("no public port")?,
                internal_url: url("internal"),
                admin_url: url("admin").context("no admin port")?,
                state: State::Running,
            };
            urls.insert(area.name.to_owned(), found);
        }
        Ok(urls)
    }

    /// Stops an area, or starts it again.
    pub(super) async fn scale(&self, area: &str, runs: bool) -> anyhow::Result<()> {
        let replicas = format!("--replicas={}", if runs { REPLICAS } else { "0" });
        let [serve, work] = ["serve", "work"].map(|role| format!("deployment/{area}-{role}"));
        self.kube.run(&["scale", &serve, &work, &replicas]).await?;
        self.kube.settled().await.map(drop)
    }
}

/// The Service by which an area is reached from outside of the cluster: that of an edge, which is no area's own.
fn edge(area: &str) -> String {
    format!("edge-{area}")
}
