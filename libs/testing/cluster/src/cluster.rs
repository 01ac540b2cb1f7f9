//! `cargo dev cluster`: the charts on a real Kubernetes, faults under load, and the demo through
//! the edge.

mod deployment;
mod environment;
mod fault;
mod images;
mod kube;
mod policies;
mod report;

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use anyhow::{Context, bail};
use clap::Args;
use console::style;
use runtime::Process;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::deployment::{Deployment, Setting};
use self::environment::Environment;
use self::fault::Fault;
use self::images::{Images, Release};
use self::kube::Kube;
use self::policies::PolicyOutcome;
use self::report::Report;
use ::demo::demo;
use chaos::chaos::fault::InjectedFaults;
use chaos::chaos::report::Outcome;
use chaos::chaos::settle::Recordings;
use chaos::chaos::writers::{Load, RequestResults};
use devkit::control::{Control, Request};
use devkit::http;
use devkit::progress::Step;
use devkit::signals::Signals;
use devkit::stack::{self, Lock, Stack};
use devstack::feed::Feed;
use devstack::services;
use devstack::{fixtures, gateway};

/// Timeout of a user's request.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

/// Short lifetimes, so that no timed work is left at the end of the load, and payouts of few lines.
const LOAD_SETTINGS: &[Setting] = &[
    ("agent", "AGENT_PAYOUT_MAX_LINES", "5"),
    ("agent", "AGENT_UNRATED_POLL_SECONDS", "1"),
    ("crm", "CRM_BOOKING_EXPIRY_INTERVAL_MS", "500"),
    ("crm", "CRM_BOOKING_TTL_SECONDS", "2"),
    ("messenger", "MESSENGER_RING_SECONDS", "2"),
    ("messenger", "MESSENGER_EMPTY_SECONDS", "1"),
];
/// Ring time of the demo's unanswered call. The default is a minute.
const STORY_SETTINGS: &[Setting] = &[("messenger", "MESSENGER_RING_SECONDS", "5")];

/// Install the charts into the cluster of KUBECONFIG, and inject faults under load
///
/// The command creates a namespace with the restricted profile and installs each service by its
/// chart. PostgreSQL, three nodes of Kafka and an issuer run on this machine, where pods reach
/// them.
///
/// From within pods it tests every route: network policies must allow the declared routes and no
/// others. Then users act in every service, half of them through an edge that keeps its
/// connections, half with a new connection for each request. At the same time each service is
/// rolled, pods are deleted and evicted, processes are killed, and nodes of the broker and the
/// database crash. Nothing may be lost: the checks are those of `cargo dev chaos`.
///
/// At the end the services are upgraded to other settings, and `cargo dev demo` plays its story
/// through the edge. The results go to docs/operations.md, and the namespace is removed. Needs
/// kubectl, helm (`HELM`, or the path), Java and Maven.
#[derive(Args)]
pub(crate) struct Cluster {
    /// Namespace to create and remove
    #[arg(long, default_value = "platform-trial")]
    namespace: String,
    /// Prefix of the image names: PREFIX/platform/selections:TAG
    #[arg(long, value_name = "PREFIX", default_value = "localhost")]
    image_prefix: String,
    /// Tag of the images
    #[arg(long, default_value = env!("CARGO_PKG_VERSION"))]
    tag: String,
    /// Make the images, and run this shell command to load each into the cluster. The command gets
    /// the name of the image in $IMAGE, the folder with its root in $ROOT, and its entrypoint as
    /// JSON in $ENTRYPOINT. Without this option, the cluster must have the images
    #[arg(long, value_name = "COMMAND")]
    load_with: Option<String>,
    /// Folder with the binaries of the services; by default they are built
    #[arg(long, requires = "load_with", value_name = "FOLDER")]
    binaries: Option<PathBuf>,
    /// Folder with binaries of an earlier release. Services in it are installed in that release
    /// and, under load, upgraded to this one, rolled back and upgraded again
    #[arg(long, requires = "load_with", conflicts_with = "story_only", value_name = "FOLDER")]
    before: Option<PathBuf>,
    /// Concurrent users per service and access path
    #[arg(long, default_value_t = 1)]
    people: usize,
    /// Skip the load and the faults
    #[arg(long)]
    story_only: bool,
    /// Skip the story
    #[arg(long, conflicts_with = "story_only")]
    no_story: bool,
    /// Keep the stack running until Ctrl-C, for `cargo dev status`, `demo`, `events`, `stop` and
    /// others
    #[arg(long)]
    keep: bool,
}

impl Cluster {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let mut signals = Signals::listen()?;
        let services = services::all();
        let kube = tokio::select! {
            kube = Kube::find(self.namespace.clone()) => kube?,
            () = signals.stop() => bail!("interrupted"),
        };
        let _lock = Lock::take("up")?;
        devkit::print_line(&kube.about);
        let images = Images::new(&self.image_prefix, &self.tag, &services, self.before.as_deref())?;
        let prepared = async {
            if let Some(command) = &self.load_with {
                images.load(&services, self.binaries.as_deref(), self.before.as_deref(), command).await?;
            }
            let deployment = Deployment::prepare(&kube, &services, images).await?;
            anyhow::Ok((deployment, Environment::prepare(kube.node, &services).await?))
        };
        let prepared = tokio::select! {
            prepared = prepared => prepared,
            () = signals.stop() => Err(anyhow::anyhow!("interrupted")),
        };
        let result = match prepared {
            Ok((deployment, environment)) => self.run_trial(&deployment, environment, &mut signals).await,
            Err(error) => Err(error),
        };
        match std::fs::remove_dir_all(stack::dev_path("cluster")?) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => result.and(Err(error.into())),
            _ => result,
        }
    }

    /// Runs the trial and removes everything that it created.
    async fn run_trial(
        &self,
        deployment: &Deployment<'_>,
        mut environment: Environment,
        signals: &mut Signals,
    ) -> anyhow::Result<()> {
        let result = self.install_and_test(deployment, &mut environment, signals).await;
        let step = Step::start("stopping");
        step.note("removing the namespace");
        let closed = deployment.kube.close().await;
        Stack::delete_file()?;
        let stopped = environment.stop().await;
        if closed.is_ok() && stopped.is_ok() {
            step.done("the cluster is clean");
        }
        result.and(closed).and(stopped)
    }

    async fn install_and_test(
        &self,
        deployment: &Deployment<'_>,
        environment: &mut Environment,
        signals: &mut Signals,
    ) -> anyhow::Result<()> {
        let installed = async {
            environment.start().await?;
            let step = Step::start("charts");
            deployment.kube.open().await?;
            deployment.create_secrets_and_services(environment).await?;
            let settings = if self.story_only { STORY_SETTINGS } else { LOAD_SETTINGS };
            let release = if self.before.is_some() { Release::Before } else { Release::This };
            deployment.install(environment, release, settings, &policies::ingress()).await?;
            step.done(format!("{} services in namespace {}", deployment.services.len(), self.namespace));
            let policy_outcome = policies::try_all(deployment, environment).await?;
            deployment.install(environment, release, settings, &Deployment::open_ingress()).await?;
            anyhow::Ok((policy_outcome, Edge::open(deployment, environment).await?))
        };
        let (policy_outcome, edge) = tokio::select! {
            installed = installed => installed?,
            () = signals.stop() => bail!("interrupted"),
        };
        let result = self.test_deployment(deployment, environment, &edge, &policy_outcome, signals).await;
        edge.close().await.and(result)
    }

    async fn test_deployment(
        &self,
        deployment: &Deployment<'_>,
        environment: &mut Environment,
        edge: &Edge,
        policy_outcome: &PolicyOutcome,
        signals: &mut Signals,
    ) -> anyhow::Result<()> {
        let stack = &edge.stack;
        let mut checked = Ok(());
        if !self.story_only {
            let report = tokio::select! {
                report = self.inject_faults(deployment, environment, stack, policy_outcome) => report?,
                () = signals.stop() => bail!("interrupted"),
            };
            devkit::print_line(&report.to_string());
            devkit::print_line(&format!("written to {}", report.write()?.display()));
            checked = report.check();
        }
        if self.no_story && !self.keep {
            return checked;
        }
        let prepared = async {
            if !self.story_only {
                let step = Step::start("upgrade");
                deployment
                    .install(environment, Release::This, STORY_SETTINGS, &Deployment::open_ingress())
                    .await?;
                step.done("to other settings");
            }
            let step = Step::start("demo data");
            let detail = fixtures::create(stack, &step).await?;
            step.done(detail);
            stack.save()
        };
        tokio::select! {
            prepared = prepared => prepared?,
            () = signals.stop() => bail!("interrupted"),
        }
        let control = Control::listen()?;
        let serve_control = async {
            loop {
                let pending = control.next().await;
                let (service, runs) = match &pending.request {
                    Request::Stop(service) => (service, false),
                    Request::Start(service) => (service, true),
                };
                let done = deployment.scale(service, runs).await;
                let reply = format!("{service} is {}", if runs { "running" } else { "stopped" });
                pending.reply(done.map(|()| reply)).await;
            }
        };
        let use_platform = async {
            if !self.no_story {
                demo::play(stack, signals).await?;
            }
            if self.keep {
                devkit::print_line(&format!(
                    "{}\n{}",
                    stack.base_url,
                    style("Ctrl-C removes everything.").dim()
                ));
                signals.stop().await;
            }
            anyhow::Ok(())
        };
        let used = tokio::select! {
            done = use_platform => done,
            () = serve_control => Ok(()),
        };
        used.and(checked)
    }

    /// Injects one fault after the other while users act in every service, and returns the report.
    async fn inject_faults(
        &self,
        deployment: &Deployment<'_>,
        environment: &mut Environment,
        stack: &Stack,
        policy_outcome: &PolicyOutcome,
    ) -> anyhow::Result<Report> {
        let Deployment { kube, services, .. } = deployment;
        // No service commits the messages of the external system, so they are not checked.
        let topics: Vec<_> =
            services::topics(services).into_iter().filter(|topic| !topic.starts_with("external.")).collect();
        let recordings =
            Recordings::open(services, &environment.database.url(), &environment.brokers(), &topics).await?;
        let (stopping, results) = (CancellationToken::new(), Arc::new(RequestResults::default()));
        let issuer = environment.issuer.clone();
        let mut people = JoinSet::new();
        for (client, through_edge) in [(http::client()?, true), (http::without_keep_alive()?, false)] {
            let load = Load {
                client: &client,
                timeout: RESPONSE_TIMEOUT,
                issuer: &issuer,
                results: &results,
                stopping: &stopping,
            };
            for _ in 0..self.people {
                load.spawn(&mut people, |service| {
                    let urls =
                        stack.services.get(service).with_context(|| format!("no Service of {service}"))?;
                    Ok(if through_edge { stack.base_url.clone() } else { urls.public_url.clone() })
                })?;
            }
        }
        let mut report = Report::of(&kube.about, policy_outcome);
        // Gives the users time to create their data.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let (mut requests, mut ended) = (results.take().requests, 0);
        let faults = Fault::all(services, &deployment.images.before);
        for fault in &faults {
            let step = Step::start("fault");
            step.note(fault.name());
            let started = tokio::time::Instant::now();
            let so_far = fault.inject(deployment, environment).await.with_context(|| fault.name())?;
            ended = ended.max(so_far);
            let score = results.take();
            requests += score.requests;
            step.done(format!(
                "{}: {} requests, {} failed, {} failed in every retry, longest {} ms",
                fault.name(),
                score.requests,
                score.failed,
                score.failed_retries,
                score.longest.as_millis()
            ));
            for failure in &score.failures {
                devkit::print_line(&format!("    {failure}"));
            }
            report.add(*fault, &score, started.elapsed());
        }
        stopping.cancel();
        people.join_all().await;
        let outcome = Outcome::of(&recordings, InjectedFaults::default(), requests, || Ok(ended)).await?;
        report.close(&outcome);
        Ok(report)
    }
}

/// The edge of the platform on this machine: one address for all services, with persistent
/// connections.
struct Edge {
    stack: Stack,
    process: Process,
    gateway: ServerHandle,
    feed: Feed,
}

impl Edge {
    async fn open(deployment: &Deployment<'_>, environment: &Environment) -> anyhow::Result<Self> {
        let step = Step::start("edge");
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let stack = Stack {
            base_url: format!("http://{}", listener.local_addr()?),
            issuer: environment.issuer.url().to_owned(),
            database_url: environment.database.url(),
            brokers: environment.brokers(),
            livekit_url: None,
            services: deployment.urls().await?,
        };
        let process = Process::new();
        let (gateway, feed) = gateway::open(&process, listener, deployment.services, &stack)?;
        step.done(&stack.base_url);
        Ok(Self { stack, process, gateway, feed })
    }

    async fn close(self) -> anyhow::Result<()> {
        self.feed.close();
        self.gateway.stop(true).await;
        self.process.stop();
        self.process.finished().await
    }
}
