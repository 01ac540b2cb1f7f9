//! A client of the cluster of `KUBECONFIG`, by `kubectl`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::Instant;

/// Timeout until all pods are ready.
const ROLLOUT_TIMEOUT: Duration = Duration::from_mins(5);
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The permissions that the command needs in its namespace.
const REQUIRED_PERMISSIONS: [(&str, &str); 8] = [
    ("create", "deployments.apps"),
    ("create", "secrets"),
    ("create", "services"),
    ("create", "networkpolicies.networking.k8s.io"),
    ("create", "poddisruptionbudgets.policy"),
    ("delete", "pods"),
    ("create", "pods/eviction"),
    ("update", "deployments.apps/scale"),
];
/// Reasons for which a container waits forever.
const PERMANENT_REASONS: [&str; 6] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
];

/// A namespace of the command in a cluster.
pub(super) struct Kube {
    pub(super) namespace: String,
    /// Version and nodes of the cluster, for the report.
    pub(super) about: String,
    /// Address of the first node.
    pub(super) node: IpAddr,
}

/// A pod that is not terminating.
pub(super) struct Pod {
    pub(super) name: String,
    /// Address within the cluster, empty until the pod has one.
    pub(super) address: String,
    id: String,
}

impl Pod {
    /// Returns the processes of the pod on this machine, each with its program.
    pub(super) fn processes(&self) -> anyhow::Result<Vec<(u32, PathBuf)>> {
        let mut found = Vec::new();
        for entry in
            std::fs::read_dir("/proc").context("processes of pods are found on Linux only")?.flatten()
        {
            let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let groups = std::fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
            // With the systemd driver, the id has underscores.
            if groups.contains(&self.id) || groups.contains(&self.id.replace('-', "_")) {
                found.push((process, std::fs::read_link(entry.path().join("exe")).unwrap_or_default()));
            }
        }
        Ok(found)
    }
}

impl Kube {
    /// Checks that a cluster responds and grants the required permissions. Changes nothing.
    pub(super) async fn find(namespace: String) -> anyhow::Result<Self> {
        let version = kubectl(&["version", "--output=json", "--request-timeout=10s"], None).await;
        let version: Value = serde_json::from_str(&version.context("no cluster responds")?)?;
        let version =
            version["serverVersion"]["gitVersion"].as_str().context("the cluster has no version")?;
        for (verb, what) in [("create", "namespaces"), ("delete", "namespaces"), ("list", "nodes")] {
            permitted(verb, what, "").await?;
        }
        for (verb, what) in REQUIRED_PERMISSIONS {
            permitted(verb, what, &namespace).await?;
        }
        let found =
            kubectl(&["get", "namespace", &namespace, "--ignore-not-found", "--output=name"], None).await?;
        ensure!(found.is_empty(), "namespace {namespace} exists; --namespace selects another one");
        let nodes: Value = serde_json::from_str(&kubectl(&["get", "nodes", "--output=json"], None).await?)?;
        let nodes = nodes["items"].as_array().context("the cluster has no nodes")?;
        let first = nodes.first().context("the cluster has no nodes")?;
        let addresses = first["status"]["addresses"].as_array().into_iter().flatten();
        let node = addresses
            .filter(|address| address["type"] == "InternalIP")
            .find_map(|address| address["address"].as_str()?.parse().ok());
        let runtime = first["status"]["nodeInfo"]["containerRuntimeVersion"].as_str().unwrap_or_default();
        let about = format!("Kubernetes {version}, {} node(s), {runtime}", nodes.len());
        Ok(Self { namespace, about, node: node.context("the cluster's node has no address")? })
    }

    /// Creates the namespace with the restricted profile.
    pub(super) async fn open(&self) -> anyhow::Result<()> {
        let labels = json!({
            "pod-security.kubernetes.io/enforce": "restricted",
            "pod-security.kubernetes.io/enforce-version": "latest",
        });
        let metadata = json!({"name": self.namespace, "labels": labels});
        self.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).await
    }

    /// Removes the namespace with everything in it.
    pub(super) async fn close(&self) -> anyhow::Result<()> {
        let close = ["delete", "namespace", &self.namespace, "--ignore-not-found", "--timeout=180s"];
        kubectl(&close, None).await.map(drop)
    }

    pub(super) async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        self.run_with(&["apply", "--filename=-"], Some(object.to_string())).await.map(drop)
    }

    pub(super) async fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.run_with(arguments, None).await
    }

    async fn run_with(&self, arguments: &[&str], input: Option<String>) -> anyhow::Result<String> {
        let namespace = format!("--namespace={}", self.namespace);
        let arguments: Vec<_> = arguments.iter().copied().chain([namespace.as_str()]).collect();
        kubectl(&arguments, input).await
    }

    async fn get(&self, kinds: &str) -> anyhow::Result<Vec<Value>> {
        let mut found: Value = serde_json::from_str(&self.run(&["get", kinds, "--output=json"]).await?)?;
        Ok(found["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Returns the pods of a service's role.
    pub(super) async fn pods(&self, service: &str, role: &str) -> anyhow::Result<Vec<Pod>> {
        let pods = self.get("pods").await?;
        let pods = pods.iter().filter(|pod| {
            let labels = &pod["metadata"]["labels"];
            labels["app.kubernetes.io/name"] == service
                && labels["app.kubernetes.io/component"] == role
                && pod["metadata"]["deletionTimestamp"].is_null()
        });
        let pods = pods.map(|pod| {
            let text = |name: &str| pod["metadata"][name].as_str().map(str::to_owned);
            let address = pod["status"]["podIP"].as_str().unwrap_or_default().to_owned();
            Some(Pod { name: text("name")?, address, id: text("uid")? })
        });
        pods.collect::<Option<_>>().context("a pod without a name")
    }

    /// Evicts a pod as a drain does. Returns false while its disruption budget forbids it.
    pub(super) async fn evict(&self, pod: &Pod) -> anyhow::Result<bool> {
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": self.namespace},
        });
        let path = format!("/api/v1/namespaces/{}/pods/{}/eviction", self.namespace, pod.name);
        match kubectl(&["create", "--filename=-", "--raw", &path], Some(eviction.to_string())).await {
            Ok(_) => Ok(true),
            Err(error) if error.to_string().contains("disruption budget") => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until each deployment has its pods, all new and ready, and no others.
    ///
    /// Returns the number of containers that ended by themselves: out of memory, or with another
    /// code than that of `kill -9`.
    pub(super) async fn wait_until_settled(&self) -> anyhow::Result<usize> {
        let deadline = Instant::now() + ROLLOUT_TIMEOUT;
        loop {
            let found = self.get("deployments,pods").await?;
            let (pods, deployments): (Vec<_>, Vec<_>) =
                found.iter().partition(|object| object["kind"] == "Pod");
            let waiting: Vec<_> = pods.iter().copied().flat_map(waiting_containers).collect();
            if let Some((what, reason)) = waiting.iter().find(|(_, reason)| is_permanent(reason)) {
                bail!("{what}: {reason}");
            }
            let leaving = pods.iter().any(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
            if !leaving && deployments.iter().copied().all(is_complete) {
                return Ok(pods.iter().copied().map(ended).sum());
            }
            if Instant::now() > deadline {
                let waiting: Vec<_> =
                    waiting.iter().map(|(what, reason)| format!("{what}: {reason}")).collect();
                bail!(
                    "the pods are not ready within {} s: {}",
                    ROLLOUT_TIMEOUT.as_secs(),
                    waiting.join("; ")
                );
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Returns true if the deployment has reached its last specification.
fn is_complete(deployment: &Value) -> bool {
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    let (status, wanted) = (&deployment["status"], number(&deployment["spec"]["replicas"]));
    number(&status["observedGeneration"]) >= number(&deployment["metadata"]["generation"])
        && ["replicas", "updatedReplicas", "availableReplicas"]
            .iter()
            .all(|of| number(&status[*of]) == wanted)
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let kinds = ["initContainerStatuses", "containerStatuses"];
    kinds.into_iter().flat_map(|kind| pod["status"][kind].as_array().into_iter().flatten())
}

/// Returns the waiting containers of a pod with their reasons, or the pod if no node has room for
/// it.
fn waiting_containers(pod: &Value) -> Vec<(String, String)> {
    let waiting = containers(pod).filter_map(|container| {
        let waiting = &container["state"]["waiting"];
        let what = container["image"].as_str()?.to_owned();
        let reason = waiting["reason"].as_str()?;
        let more = waiting["message"].as_str().and_then(|text| text.lines().next()).unwrap_or_default();
        Some((what, format!("{reason} {more}")))
    });
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let unplaced = conditions.filter(|of| of["type"] == "PodScheduled" && of["status"] == "False");
    let unplaced = unplaced.filter_map(|condition| {
        Some((pod["metadata"]["name"].as_str()?.to_owned(), condition["message"].as_str()?.to_owned()))
    });
    waiting.chain(unplaced).collect()
}

fn is_permanent(reason: &str) -> bool {
    PERMANENT_REASONS.iter().any(|permanent| reason.starts_with(permanent))
}

/// Returns the number of restarted containers of a pod that had ended by themselves.
fn ended(pod: &Value) -> usize {
    let ended = containers(pod).filter(|container| {
        let last = &container["lastState"]["terminated"];
        !last.is_null() && (last["exitCode"] != 137 || last["reason"] == "OOMKilled")
    });
    ended.count()
}

async fn permitted(verb: &str, what: &str, namespace: &str) -> anyhow::Result<()> {
    let namespace = format!("--namespace={namespace}");
    let output = output("kubectl", &["auth", "can-i", verb, what, &namespace], None).await?;
    ensure!(output.status.success(), "the user of KUBECONFIG may not {verb} {what}");
    Ok(())
}

async fn kubectl(arguments: &[&str], input: Option<String>) -> anyhow::Result<String> {
    succeeded("kubectl", output("kubectl", arguments, input).await?)
}

/// Runs the program of `HELM`, or `helm` of the path.
pub(super) async fn helm(arguments: &[&str]) -> anyhow::Result<String> {
    let program = devkit::variable("HELM").unwrap_or_else(|| "helm".to_owned());
    succeeded("helm", output(&program, arguments, None).await?)
}

/// Returns the output of a program. The last line of its errors explains a failure.
fn succeeded(name: &str, output: Output) -> anyhow::Result<String> {
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason was given");
    ensure!(output.status.success(), "{name}: {last}");
    Ok(String::from_utf8(output.stdout)?)
}

async fn output(program: &str, arguments: &[&str], input: Option<String>) -> anyhow::Result<Output> {
    let mut command = Command::new(program);
    // Ctrl-C signals the whole group, but the command removes its objects in order.
    command.args(arguments).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| {
        let name = Path::new(program).file_name().unwrap_or_default().display();
        format!("{name} is missing")
    })?;
    let mut stdin = child.stdin.take().context("no input")?;
    let feed = async move {
        // A program that closes its input prints the reason.
        let _ = stdin.write_all(input.unwrap_or_default().as_bytes()).await;
    };
    let ((), output) = tokio::join!(feed, child.wait_with_output());
    Ok(output?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ended, is_complete, is_permanent, waiting_containers};

    #[test]
    fn deployment_is_complete_when_all_pods_are_new_and_ready() {
        let of = |generation: i64, replicas: i64, updated: i64, available: i64| {
            is_complete(&json!({
                "metadata": {"generation": generation},
                "spec": {"replicas": 2},
                "status": {
                    "observedGeneration": 3,
                    "replicas": replicas,
                    "updatedReplicas": updated,
                    "availableReplicas": available,
                },
            }))
        };
        assert!(of(3, 2, 2, 2));
        assert!(!of(4, 2, 2, 2), "the last specification was not observed");
        assert!(!of(3, 3, 2, 2), "an old one is left");
        assert!(!of(3, 2, 1, 2), "one is old");
        assert!(!of(3, 2, 2, 1), "one is not ready");
        assert!(is_complete(
            &json!({"metadata": {"generation": 1}, "spec": {"replicas": 0}, "status": {"observedGeneration": 1}})
        ));
    }

    #[test]
    fn missing_image_is_reported_by_name() {
        let state = json!({"waiting": {"reason": "ErrImagePull", "message": "not found\nat all"}});
        let pod = json!({"status": {"initContainerStatuses": [{"image": "localhost/platform/crm:1", "state": state}]}});
        let waiting = waiting_containers(&pod);
        assert_eq!(waiting, [("localhost/platform/crm:1".to_owned(), "ErrImagePull not found".to_owned())]);
        assert!(is_permanent(&waiting[0].1));
        assert!(!is_permanent("PodInitializing"));
    }

    #[test]
    fn unscheduled_pod_is_reported_with_the_reason() {
        let condition = json!({"type": "PodScheduled", "status": "False", "message": "Insufficient cpu"});
        let pod = json!({"metadata": {"name": "crm-work-1"}, "status": {"conditions": [condition]}});
        assert_eq!(waiting_containers(&pod), [("crm-work-1".to_owned(), "Insufficient cpu".to_owned())]);
    }

    #[test]
    fn killed_container_does_not_count_as_ended() {
        let of = |code: i64, reason: &str| {
            let last = json!({"terminated": {"exitCode": code, "reason": reason}});
            ended(&json!({"status": {"containerStatuses": [{"lastState": last}, {"lastState": {}}]}}))
        };
        assert_eq!((of(137, "Error"), of(137, "OOMKilled"), of(1, "Error")), (0, 1, 1));
    }
}
