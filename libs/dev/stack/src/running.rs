//! The whole platform: started in order, supervised, and stopped in reverse order.

use std::collections::BTreeMap;
use std::net::TcpListener;

use actix_web::dev::ServerHandle;
use anyhow::{Context, ensure};
use runtime::Process;
use testkit::issuer::{Issuer, RunningIssuer};

use crate::feed::Feed;
use crate::gateway;
use crate::options::Up;
use crate::services::{self, ServiceEntry};
use crate::supervisor::{Mode, Supervisor};
use crate::{fixtures, processes, supervisor};
use devkit::Settings;
use devkit::bus::Bus;
use devkit::children;
use devkit::control::{Control, Request};
use devkit::kafka;
use devkit::livekit::{self, LiveKit};
use devkit::postgres::{self, Cluster};
use devkit::progress::Step;
use devkit::stack::{self, Lock, Stack, State, Urls};

/// The started parts of the platform.
pub struct Running {
    lock: Lock,
    control: Option<Control>,
    /// The addresses of the stack once it is ready.
    stack: Option<Stack>,
    gateway: Option<ServerHandle>,
    feed: Option<Feed>,
    /// The process of the gateway's tasks.
    process: Process,
    supervisor: Supervisor,
    issuer: Option<RunningIssuer>,
    livekit: Option<LiveKit>,
    bus: Option<Bus>,
    cluster: Option<Cluster>,
}

impl Running {
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            lock: Lock::take("up")?,
            control: None,
            stack: None,
            gateway: None,
            feed: None,
            process: Process::new(),
            supervisor: Supervisor::default(),
            issuer: None,
            livekit: None,
            bus: None,
            cluster: None,
        })
    }

    /// Starts all parts. After a failure, [`Running::stop`] stops the started parts.
    pub async fn start(&mut self, options: &Up) -> anyhow::Result<Stack> {
        // The port comes first, so that a port in use is reported at once.
        let listener =
            TcpListener::bind(("127.0.0.1", options.port)).map_err(|error| match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    anyhow::anyhow!("port {} is in use; --port selects another one", options.port)
                }
                _ => anyhow::anyhow!("failed to bind port {}: {error}", options.port),
            })?;
        let base_url = format!("http://{}", listener.local_addr()?);
        children::stop_left_behind().await?;
        let services = services::all();

        let database_url = self.start_database(options).await?;
        let brokers = self.start_bus(options, &services).await?;
        let (url, issuer_admin_url) = self.start_issuer(options)?;
        if options.media {
            let step = Step::start("livekit");
            self.livekit = Some(LiveKit::start(&base_url, &step).await?);
            step.done(LiveKit::URL);
        }

        let mut common = livekit::settings(options.media);
        common.extend(Settings::from([
            ("DATABASE_URL", database_url.clone()),
            ("KAFKA_BROKERS", brokers.clone()),
            // The embedded broker makes a group wait for this timeout after a service has stopped.
            ("KAFKA_SESSION_TIMEOUT_MS", "6000".to_owned()),
            // The topics exist already.
            ("KAFKA_TOPICS", "elsewhere".to_owned()),
            ("AUTH_ISSUER", url.clone()),
            ("IDENTITY_ISSUER_ADMIN_URL", issuer_admin_url),
            // The gateway sets the address by which guests are counted.
            ("TRUSTED_PROXIES", "127.0.0.0/8".to_owned()),
            ("PUBLIC_LISTEN", "127.0.0.1:0".to_owned()),
            ("INTERNAL_LISTEN", "127.0.0.1:0".to_owned()),
            ("ADMIN_LISTEN", "127.0.0.1:0".to_owned()),
        ]));
        common.extend(options.settings.clone());
        if options.processes {
            processes::build(&services).await?;
            self.supervisor = Supervisor::new(Mode::Processes);
        }
        let urls_by_service = self.start_services(&services, common).await?;
        let livekit_url = self.livekit.is_some().then(|| LiveKit::URL.to_owned());
        let stack =
            Stack { base_url, issuer: url, database_url, brokers, livekit_url, services: urls_by_service };
        self.start_gateway(listener, &services, &stack)?;
        if !options.no_seed {
            let step = Step::start("demo data");
            let detail = fixtures::create(&stack, &step).await.context(
                "failed to create the demo data; --no-seed skips it, --fresh deletes all data first",
            )?;
            step.done(detail);
        }
        self.control = Some(Control::listen()?);
        stack.save()?;
        self.stack = Some(stack.clone());
        Ok(stack)
    }

    async fn start_database(&mut self, options: &Up) -> anyhow::Result<String> {
        let step = Step::start("database");
        if let Some(url) = devkit::variable("DATABASE_URL") {
            ensure!(
                !options.fresh,
                "--fresh is for the private database, but DATABASE_URL names another one"
            );
            postgres::connect(&url).await.context("failed to connect to DATABASE_URL")?;
            step.done("from DATABASE_URL");
            return Ok(url);
        }
        let cluster = Cluster::prepare(options.cluster, options.fresh, &step).await?;
        let cluster = self.cluster.insert(cluster);
        cluster.start(&step).await?;
        step.done(cluster.describe());
        Ok(cluster.url())
    }

    async fn start_bus(&mut self, options: &Up, services: &[ServiceEntry]) -> anyhow::Result<String> {
        let step = Step::start("broker");
        if options.fresh {
            kafka::delete_data(Bus::STACK)?;
        }
        let bus = Bus::open(options.broker, Bus::STACK, &services::topics(services), &step).await?;
        let bus = self.bus.insert(bus);
        let brokers = bus.brokers()?;
        step.done(format!("{brokers}, {}", bus.describe()));
        Ok(brokers)
    }

    /// Returns the URLs of the issuer and of its administration.
    fn start_issuer(&mut self, options: &Up) -> anyhow::Result<(String, String)> {
        let step = Step::start("issuer");
        let listener = stack::listen_on_previous_port("issuer")?;
        let url = format!("http://{}", listener.local_addr()?);
        let key = stack::dev_path("issuer.key")?;
        if options.fresh {
            Issuer::delete_clients(&key)?;
        }
        let issuer = Issuer::load_or_create(&key, &url)?.serve(listener)?;
        let admin_url = issuer.admin_url();
        self.issuer = Some(issuer);
        step.done(&url);
        Ok((url, admin_url))
    }

    /// Migrates and starts the services in their order. A service gets the internal URLs of the
    /// services before it.
    async fn start_services(
        &mut self,
        services: &[ServiceEntry],
        mut common: Settings,
    ) -> anyhow::Result<BTreeMap<String, Urls>> {
        let mut urls_by_service = BTreeMap::new();
        for service in services {
            let step = Step::start(service.name);
            step.note("migrating");
            let settings = service.settings(&common);
            (service.migrate)(settings.clone()).await?;
            step.note("starting");
            let urls = self.supervisor.add(*service, settings).await?;
            step.done(&urls.public_url);
            if let Some((variable, url)) = service.url_variable.zip(urls.internal_url.clone()) {
                common.insert(variable, url);
            }
            urls_by_service.insert(service.name.to_owned(), urls);
        }
        Ok(urls_by_service)
    }

    fn start_gateway(
        &mut self,
        listener: TcpListener,
        services: &[ServiceEntry],
        stack: &Stack,
    ) -> anyhow::Result<()> {
        let (handle, feed) = gateway::open(&self.process, listener, services, stack)?;
        self.gateway = Some(handle);
        self.feed = Some(feed);
        Ok(())
    }

    /// Returns the description of the broker for the summary.
    pub fn broker(&self) -> &'static str {
        self.bus.as_ref().map_or("", Bus::describe)
    }

    /// Serves the control socket until a part ends by itself.
    pub async fn serve_control(&mut self) -> anyhow::Error {
        loop {
            let kafka = async {
                match &mut self.bus {
                    Some(Bus::Kafka(kafka)) => kafka.wait_for_end().await,
                    _ => std::future::pending().await,
                }
            };
            let livekit = async {
                match &mut self.livekit {
                    Some(livekit) => livekit.wait_for_end().await,
                    None => std::future::pending().await,
                }
            };
            let request = async {
                match &self.control {
                    Some(control) => control.next().await,
                    None => std::future::pending().await,
                }
            };
            let pending = tokio::select! {
                pending = request => pending,
                error = supervisor::wait_for_end("gateway", &self.process) => return error,
                error = self.supervisor.wait_for_end() => return error,
                error = kafka => return error,
                error = livekit => return error,
            };
            let result = match &pending.request {
                Request::Stop(name) => self.stop_service(name).await,
                Request::Start(name) => self.start_service(name).await,
            };
            pending.reply(result).await;
        }
    }

    async fn stop_service(&mut self, name: &str) -> anyhow::Result<String> {
        let step = Step::start(name);
        step.note("stopping");
        let stopped = self.supervisor.stop(name).await;
        self.record(name, State::Stopped)?;
        if !stopped? {
            return Ok(format!("{name} was stopped already"));
        }
        step.done("stopped");
        Ok(format!("{name} is stopped; `cargo dev start {name}` starts it again"))
    }

    async fn start_service(&mut self, name: &str) -> anyhow::Result<String> {
        let step = Step::start(name);
        step.note("starting");
        if !self.supervisor.start(name).await? {
            return Ok(format!("{name} was running already"));
        }
        self.record(name, State::Running)?;
        step.done("started again");
        Ok(format!("{name} runs"))
    }

    /// Records the state of a service for `cargo dev status`.
    fn record(&mut self, name: &str, state: State) -> anyhow::Result<()> {
        let Some(stack) = &mut self.stack else { return Ok(()) };
        if let Some(urls) = stack.services.get_mut(name) {
            urls.state = state;
        }
        stack.save()
    }

    /// Stops all parts, the last started first. Returns the first failure after all parts have
    /// stopped.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let step = self.bus.is_some().then(|| Step::start("stopping"));
        let mut failures = Vec::new();
        drop(self.control);
        Stack::delete_file()?;
        if let Some(feed) = self.feed {
            feed.close();
        }
        if let Some(gateway) = self.gateway {
            gateway.stop(true).await;
        }
        self.process.stop();
        failures.extend(self.process.finished().await.context("gateway").err());
        failures.extend(self.supervisor.stop_all().await);
        if let Some(livekit) = self.livekit {
            failures.extend(livekit.stop().await.err());
        }
        drop(self.issuer);
        if let Some(bus) = self.bus {
            failures.extend(bus.close().await.err());
        }
        if let Some(cluster) = self.cluster {
            failures.extend(cluster.stop().await.err());
        }
        if let Some(step) = step {
            step.done("everything has stopped");
        }
        drop(self.lock);
        match failures.into_iter().next() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}
