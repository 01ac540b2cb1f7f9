//! The services in the cluster, each installed by its chart with values of this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Value, json};
use testkit::issuer::CLIENTS;

use super::environment::Environment;
use super::images::{Images, Release};
use super::kube::{Kube, helm};
use devkit::Settings;
use devkit::files;
use devkit::livekit;
use devkit::stack::{self, State, Urls};
use devstack::services::ServiceEntry;

/// Replicas of each role, the default of the charts.
const REPLICAS: &str = "2";
const IDENTITY: &str = "identity";
const MESSENGER: &str = "messenger";
/// The settings of messenger that belong to its Secret.
const LIVEKIT_KEYS: [&str; 2] = ["LIVEKIT_API_KEY", "LIVEKIT_API_SECRET"];

/// A setting of a service: its name, the variable and the value.
pub(super) type Setting = (&'static str, &'static str, &'static str);

pub(super) struct Deployment<'a> {
    pub(super) kube: &'a Kube,
    pub(super) services: &'a [ServiceEntry],
    pub(super) images: Images<'a>,
    /// The charts with their packed dependencies.
    charts: PathBuf,
}

impl<'a> Deployment<'a> {
    /// Packs the dependencies into a copy of the charts, so that the originals do not change.
    pub(super) async fn prepare(
        kube: &'a Kube,
        services: &'a [ServiceEntry],
        images: Images<'a>,
    ) -> anyhow::Result<Self> {
        let folder = stack::dev_path("cluster")?;
        let charts = folder.join("helm");
        std::fs::create_dir_all(&folder)?;
        if charts.exists() {
            std::fs::remove_dir_all(&charts)?;
        }
        files::copy_folder(&stack::root().join("helm"), &charts)?;
        for ServiceEntry { name, .. } in services {
            let chart = charts.join(name).display().to_string();
            helm(&["dependency", "update", "--skip-refresh", &chart]).await?;
        }
        Ok(Self { kube, services, images, charts })
    }

    /// Returns ingress values that admit every address, since the edge is not a pod.
    pub(super) fn open_ingress() -> Value {
        let everyone = json!([{"ipBlock": {"cidr": "0.0.0.0/0"}}]);
        json!({"public": everyone, "internal": everyone, "admin": everyone})
    }

    /// Creates the Secret of each service and a `NodePort` Service for access from outside the
    /// cluster.
    pub(super) async fn create_secrets_and_services(&self, environment: &Environment) -> anyhow::Result<()> {
        for service in self.services {
            let mut secret = BTreeMap::from([("DATABASE_URL", environment.database_url(service.name)?)]);
            if let Some((_, password)) = CLIENTS.iter().find(|(client, _)| *client == service.name) {
                secret.insert("CLIENT_SECRET", (*password).to_owned());
            }
            if service.name == MESSENGER {
                let settings = livekit::settings(false).into_iter();
                secret.extend(settings.filter(|(name, _)| LIVEKIT_KEYS.contains(name)));
            }
            let metadata = json!({"name": service.name});
            let secret =
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": secret});
            self.kube.apply(&secret).await?;
            let selector =
                json!({"app.kubernetes.io/name": service.name, "app.kubernetes.io/component": "serve"});
            let mut ports = vec![
                json!({"name": "public", "port": 80, "targetPort": "public"}),
                json!({"name": "admin", "port": 9090, "targetPort": "admin"}),
            ];
            if service.url_variable.is_some() {
                ports.push(json!({"name": "internal", "port": 81, "targetPort": "internal"}));
            }
            self.kube
                .apply(&json!({
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": edge(service.name)},
                    "spec": {"type": "NodePort", "selector": selector, "ports": ports},
                }))
                .await?;
        }
        Ok(())
    }

    /// Installs or upgrades every chart and waits until all pods are ready. `ingress` names the
    /// admitted peers besides services.
    pub(super) async fn install(
        &self,
        environment: &Environment,
        release: Release,
        settings: &[Setting],
        ingress: &Value,
    ) -> anyhow::Result<()> {
        for service in self.services {
            let path = stack::dev_path("cluster")?.join(format!("{}.json", service.name));
            let values = self.values(environment, service.name, release, settings, ingress)?;
            std::fs::write(&path, serde_json::to_vec_pretty(&values)?)?;
            let (chart, values) =
                (self.charts.join(service.name).display().to_string(), path.display().to_string());
            helm(&[
                "upgrade",
                "--install",
                service.name,
                &chart,
                "--namespace",
                &self.kube.namespace,
                "--values",
                &values,
            ])
            .await
            .with_context(|| service.name)?;
        }
        self.kube.wait_until_settled().await.map(drop)
    }

    /// Upgrades a service to this release with its current values.
    pub(super) async fn upgrade(&self, service: &str) -> anyhow::Result<()> {
        let chart = self.charts.join(service).display().to_string();
        let tag = format!("app.image.tag={}", self.images.tag(service, Release::This));
        let (namespace, set) = (self.kube.namespace.as_str(), tag.as_str());
        helm(&["upgrade", service, &chart, "--namespace", namespace, "--reuse-values", "--set-string", set])
            .await
            .map(drop)
    }

    /// Rolls a service back to the previous release.
    pub(super) async fn roll_back(&self, service: &str) -> anyhow::Result<()> {
        helm(&["rollback", service, "--namespace", &self.kube.namespace]).await.map(drop)
    }

    /// Returns the values of a service with its own part of `settings`.
    fn values(
        &self,
        environment: &Environment,
        service: &str,
        release: Release,
        settings: &[Setting],
        ingress: &Value,
    ) -> anyhow::Result<Value> {
        let own = settings.iter().filter(|(of, ..)| *of == service);
        let mut own: Settings = own.map(|(_, name, value)| (*name, (*value).to_owned())).collect();
        let mut secret_keys = json!({});
        if service == MESSENGER {
            own.extend(livekit::settings(false).into_iter().filter(|(name, _)| !LIVEKIT_KEYS.contains(name)));
            secret_keys = json!({LIVEKIT_KEYS[0]: true, LIVEKIT_KEYS[1]: true});
        }
        if service == IDENTITY {
            own.insert("IDENTITY_ISSUER_ADMIN_URL", environment.issuer.admin_url());
            secret_keys = json!({"CLIENT_SECRET": true});
        }
        // Small requests, so that all services fit on a machine of two cores beside their database
        // and broker.
        let modest = json!({"requests": {"cpu": "20m", "memory": "64Mi"}});
        let ports = environment.ports()?.into_iter().chain([("dns", vec![53])]);
        let egress = ports.map(|(name, ports)| (name, json!({"ports": ports, "to": []})));
        Ok(json!({
            "global": {
                "imageRegistry": self.images.prefix,
                "config": {
                    "KAFKA_BROKERS": environment.brokers(),
                    "AUTH_ISSUER": environment.issuer.url(),
                    "AUTH_ALLOW_HTTP": "true",
                    // The edge has a private address or an address of this machine.
                    "TRUSTED_PROXIES": format!("{}/32,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16", environment.address),
                    // 0 removes the limit, since a simulated user sends more than a person.
                    "ACTOR_REQUESTS_PER_MINUTE": "0",
                    "ACTOR_EXPENSIVE_REQUESTS_PER_MINUTE": "0",
                    // All pods share one small PostgreSQL, which has no certificate.
                    "DATABASE_TLS": "disable",
                    "DATABASE_POOL_SIZE": "5",
                },
            },
            "app": {
                "image": {"tag": self.images.tag(service, release)},
                "existingSecret": service,
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

    /// Returns the URLs of the services from outside the cluster.
    pub(super) async fn urls(&self) -> anyhow::Result<BTreeMap<String, Urls>> {
        let mut urls = BTreeMap::new();
        for service in self.services {
            let found = self.kube.run(&["get", "service", &edge(service.name), "--output=json"]).await?;
            let found: Value = serde_json::from_str(&found)?;
            let url = |name: &str| {
                let mut ports = found["spec"]["ports"].as_array().into_iter().flatten();
                let port = ports.find(|port| port["name"] == name)?["nodePort"].as_u64()?;
                Some(format!("http://{}:{port}", self.kube.node))
            };
            let entry = Urls {
                public_url: url("public").context("no public port")?,
                internal_url: url("internal"),
                admin_url: url("admin").context("no admin port")?,
                state: State::Running,
            };
            urls.insert(service.name.to_owned(), entry);
        }
        Ok(urls)
    }

    /// Stops a service or starts it again.
    pub(super) async fn scale(&self, service: &str, runs: bool) -> anyhow::Result<()> {
        let replicas = format!("--replicas={}", if runs { REPLICAS } else { "0" });
        let [serve, work] = ["serve", "work"].map(|role| format!("deployment/{service}-{role}"));
        self.kube.run(&["scale", &serve, &work, &replicas]).await?;
        self.kube.wait_until_settled().await.map(drop)
    }
}

/// Returns the name of the `NodePort` Service of a service. The chart does not contain it.
fn edge(service: &str) -> String {
    format!("edge-{service}")
}
