//! A test of the network policies: from within pods, declared routes must be open and all others
//! closed.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::deployment::Deployment;
use super::environment::Environment;
use super::fault::ROLES;
use super::images::Release;
use super::kube::{Kube, Pod};
use devkit::progress::Step;
use devstack::services::ServiceEntry;

const PUBLIC: u16 = 8080;
const INTERNAL: u16 = 8081;
const ADMIN: u16 = 9090;
/// Name of the pods that belong to no service.
const OUTSIDER: &str = "outsider";
/// The service whose image the outsider pods run.
const OUTSIDER_SERVICE: &str = "selections";
/// The components of the outsider pods, each with the port at which the charts admit it.
const OUTSIDERS: [(&str, Option<u16>); 4] =
    [("gateway", Some(PUBLIC)), ("issuer", Some(INTERNAL)), ("monitoring", Some(ADMIN)), ("stranger", None)];
/// Timeout of a connection, since a closed route may not answer. A connection between pods of one
/// node takes a millisecond.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout until the policy engine knows all pods and policies.
const POLICY_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns ingress values that admit each component at its port.
pub(super) fn ingress() -> Value {
    let admit = |component: &str| {
        json!([{"podSelector": {"matchLabels": {
            "app.kubernetes.io/name": OUTSIDER,
            "app.kubernetes.io/component": component,
        }}}])
    };
    json!({"public": admit("gateway"), "internal": admit("issuer"), "admin": admit("monitoring")})
}

/// The result of the test.
pub(super) enum PolicyOutcome {
    /// The declared routes are open and the others closed, in these numbers.
    Enforced { open: usize, closed: usize },
    /// All routes are open, since the cluster does not enforce policies.
    NotEnforced,
}

impl fmt::Display for PolicyOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enforced { open, closed } => {
                write!(
                    f,
                    "Network policies hold: {open} declared routes are open, {closed} others are closed."
                )
            }
            Self::NotEnforced => write!(f, "This cluster does not enforce network policies."),
        }
    }
}

/// The source of a route.
#[derive(Clone, Copy)]
enum Origin<'a> {
    Service(&'a ServiceEntry),
    /// A pod outside the services, with the port at which it is admitted.
    Outsider(Option<u16>),
}

/// The destination of a route.
#[derive(Clone, Copy)]
enum Destination<'a> {
    Service(&'a ServiceEntry, u16),
    /// The database, the broker or the issuer.
    Environment,
    /// An address that no service uses.
    Elsewhere,
}

struct Source<'a> {
    name: String,
    from: Origin<'a>,
    process: u32,
}

impl Source<'_> {
    fn is_own(&self, to: Destination<'_>) -> bool {
        match (self.from, to) {
            (Origin::Service(own), Destination::Service(service, _)) => own.name == service.name,
            _ => false,
        }
    }

    async fn reach<'a>(&'a self, targets: &'a [Target<'a>]) -> anyhow::Result<Vec<Route<'a>>> {
        let targets: Vec<_> = targets.iter().filter(|target| !self.is_own(target.to)).collect();
        let addresses = targets.iter().map(|target| target.address).collect();
        let reached = connected(self.process, addresses).await?;
        let routes = targets.into_iter().zip(reached).map(|(target, is_open)| Route {
            from: &self.name,
            to: &target.name,
            is_declared: is_declared(self.from, target.to),
            is_open,
        });
        Ok(routes.collect())
    }
}

struct Target<'a> {
    name: String,
    to: Destination<'a>,
    address: SocketAddr,
}

struct Route<'a> {
    from: &'a str,
    to: &'a str,
    is_declared: bool,
    is_open: bool,
}

impl fmt::Display for Route<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, is_open, .. } = self;
        write!(f, "{from} to {to} is {}", if *is_open { "open" } else { "closed" })
    }
}

/// Returns true if a call or the values of the charts declare the route.
fn is_declared(from: Origin<'_>, to: Destination<'_>) -> bool {
    match (from, to) {
        (Origin::Service(service), Destination::Service(callee, INTERNAL)) => {
            service.calls.iter().any(|call| call.service == callee.name)
        }
        (Origin::Service(_), Destination::Service(..) | Destination::Elsewhere) => false,
        (Origin::Outsider(at), Destination::Service(_, port)) => at == Some(port),
        // No policy restricts the egress of outsiders.
        (_, Destination::Environment) | (Origin::Outsider(_), Destination::Elsewhere) => true,
    }
}

/// Tests every route, except from a service to itself.
///
/// # Errors
/// A route whose state differs from its declaration, unless all routes are open.
pub(super) async fn try_all(
    deployment: &Deployment<'_>,
    environment: &Environment,
) -> anyhow::Result<PolicyOutcome> {
    let step = Step::start("policies");
    let kube = deployment.kube;
    step.note("pods outside the services");
    for (component, _) in OUTSIDERS {
        kube.apply(&outsider(component, &deployment.images.of(OUTSIDER_SERVICE, Release::This))).await?;
    }
    let name = format!("--selector=app.kubernetes.io/name={OUTSIDER}");
    kube.run(&["wait", "--for=condition=Ready", "pod", &name, "--timeout=60s"]).await?;
    let elsewhere = TcpListener::bind((environment.address, 0)).await?;
    let (sources, targets) =
        find_ends(kube, deployment.services, environment, elsewhere.local_addr()?).await?;
    // Without `accept`, connections would be refused after a while.
    let mut accepting = JoinSet::<()>::new();
    accepting.spawn(async move {
        loop {
            drop(elsewhere.accept().await);
        }
    });
    step.note(format!("{} routes", sources.len() * targets.len()));
    let deadline = Instant::now() + POLICY_TIMEOUT;
    let outcome = loop {
        let mut tried = Vec::new();
        for source in &sources {
            tried.extend(source.reach(&targets).await?);
        }
        let wrong: Vec<_> = tried.iter().filter(|route| route.is_open != route.is_declared).collect();
        let open = tried.iter().filter(|route| route.is_open).count();
        if wrong.is_empty() {
            break PolicyOutcome::Enforced { open, closed: tried.len() - open };
        }
        if Instant::now() > deadline {
            let wrong: Vec<_> = wrong.into_iter().map(Route::to_string).collect();
            ensure!(open == tried.len(), "not as declared: {}", wrong.join("; "));
            break PolicyOutcome::NotEnforced;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    kube.run(&["delete", "pod", &name]).await?;
    step.done(&outcome);
    Ok(outcome)
}

fn outsider(component: &str, image: &str) -> Value {
    // The process waits for a database that does not exist.
    let environment = [
        ("DATABASE_URL", "postgres://postgres@127.0.0.1:1/platform"),
        ("KAFKA_BROKERS", "127.0.0.1:1"),
        ("AUTH_ISSUER", "http://127.0.0.1:1"),
    ];
    let environment = environment.map(|(name, value)| json!({"name": name, "value": value}));
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("{OUTSIDER}-{component}"),
            "labels": {"app.kubernetes.io/name": OUTSIDER, "app.kubernetes.io/component": component},
        },
        "spec": {
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": OUTSIDER,
                "image": image,
                "args": ["serve"],
                "env": environment,
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    })
}

/// Returns a pod of each role of each service and the other pods as sources, and all destinations.
async fn find_ends<'a>(
    kube: &Kube,
    services: &'a [ServiceEntry],
    environment: &Environment,
    elsewhere: SocketAddr,
) -> anyhow::Result<(Vec<Source<'a>>, Vec<Target<'a>>)> {
    let (mut sources, mut targets) = (Vec::new(), Vec::new());
    let first = async |name: &str, role: &str| {
        let pod = kube.pods(name, role).await?.into_iter().next();
        pod.with_context(|| format!("there is no pod of {name} {role}"))
    };
    let source = |name: String, from, pod: &Pod| {
        let process = pod.processes()?.first().map(|(process, _)| *process);
        let process =
            process.with_context(|| format!("{} is not on this machine, or not visible to you", pod.name))?;
        anyhow::Ok(Source { name, from, process })
    };
    for service in services {
        for role in ROLES {
            let pod = first(service.name, role).await?;
            sources.push(source(format!("{} {role}", service.name), Origin::Service(service), &pod)?);
            let address: IpAddr =
                pod.address.parse().with_context(|| format!("{} has no address", pod.name))?;
            let ports: &[u16] = match (role, service.url_variable) {
                ("serve", Some(_)) => &[PUBLIC, INTERNAL, ADMIN],
                ("serve", None) => &[PUBLIC, ADMIN],
                _ => &[ADMIN],
            };
            targets.extend(ports.iter().map(|port| Target {
                name: format!("{} {role}:{port}", service.name),
                to: Destination::Service(service, *port),
                address: (address, *port).into(),
            }));
        }
    }
    for (component, at) in OUTSIDERS {
        let pod = first(OUTSIDER, component).await?;
        sources.push(source(format!("the {component}"), Origin::Outsider(at), &pod)?);
    }
    for (name, ports) in environment.ports()? {
        targets.extend(ports.into_iter().map(|port| Target {
            name: name.to_owned(),
            to: Destination::Environment,
            address: (environment.address, port).into(),
        }));
    }
    targets.push(Target { name: "elsewhere".to_owned(), to: Destination::Elsewhere, address: elsewhere });
    Ok((sources, targets))
}

/// Returns for each address whether a connection from the network of this process succeeds.
async fn connected(process: u32, addresses: Vec<SocketAddr>) -> anyhow::Result<Vec<bool>> {
    let (answer, answered) = oneshot::channel();
    // A thread that has entered another network cannot return.
    std::thread::spawn(move || {
        let connected = || {
            enter(process)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let connect = async |address| {
                timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await.is_ok_and(|made| made.is_ok())
            };
            anyhow::Ok(runtime.block_on(join_all(addresses.into_iter().map(connect))))
        };
        // The receiver may be gone.
        drop(answer.send(connected()));
    });
    answered.await?.with_context(|| format!("no permission to enter the network of process {process}"))
}

/// Moves the thread into the network of a process.
#[cfg(target_os = "linux")]
fn enter(process: u32) -> anyhow::Result<()> {
    use nix::sched::{CloneFlags, setns};

    let network = std::fs::File::open(format!("/proc/{process}/ns/net"))?;
    Ok(setns(network, CloneFlags::CLONE_NEWNET)?)
}

#[cfg(not(target_os = "linux"))]
fn enter(_: u32) -> anyhow::Result<()> {
    anyhow::bail!("pods have networks of their own on Linux only")
}
