//! Brings the whole platform up, in order, and takes it down again, in reverse.

use std::collections::BTreeMap;
use std::net::TcpListener;

use actix_web::dev::ServerHandle;
use anyhow::{Context, bail, ensure};
use clap::Args;
use console::style;
use futures_util::future::select_all;
use runtime::Process;
use testkit::issuer::{Issuer, Served};

use crate::areas::{self, Area, Settings};
use crate::bus::{Bus, Kind};
use crate::children;
use crate::gateway::{self, Routes};
use crate::kafka::Kafka;
use crate::postgres::{self, Cluster};
use crate::processes::Processes;
use crate::progress::Step;
use crate::signals::Signals;
use crate::stack::{self, Lock, Stack, Urls};
use crate::{actors, seed};

/// Start the platform and keep it running until Ctrl-C
#[derive(Args, Clone)]
pub(crate) struct Up {
    /// Port of the base URL; 0 takes a free one
    #[arg(long, default_value_t = 8080)]
    pub(crate) port: u16,
    /// Forget all data of the private database and broker first
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Start without the demo data
    #[arg(long)]
    pub(crate) no_seed: bool,
    /// The broker to start where `KAFKA_BROKERS` names none
    #[arg(long, value_enum, default_value = "embedded")]
    pub(crate) broker: Kind,
    /// Run each service as its own processes, as they are deployed
    #[arg(long)]
    pub(crate) processes: bool,
}

impl Up {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let mut signals = Signals::listen()?;
        let mut running = Running::new()?;
        let result = tokio::select! {
            result = async {
                let stack = running.start(&self).await?;
                let summary = summary(&stack, running.bus.as_ref().map_or("", Bus::describe));
                crate::say(&format!("{summary}\n{}", style("Ctrl-C stops everything.").dim()));
                running.failed().await
            } => result,
            () = signals.stop() => Ok(()),
        };
        let stopped = running.stop().await;
        result.and(stopped)
    }
}

/// Everything that has been started so far.
pub(crate) struct Running {
    lock: Lock,
    gateway: Option<ServerHandle>,
    /// Holds the gateway's task, as each service's process holds its own.
    process: Process,
    services: Vec<(&'static str, Process)>,
    processes: Processes,
    issuer: Option<Served>,
    bus: Option<Bus>,
    cluster: Option<Cluster>,
}

impl Running {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            lock: Lock::take("up")?,
            gateway: None,
            process: Process::new(),
            services: Vec::new(),
            processes: Processes::default(),
            issuer: None,
            bus: None,
            cluster: None,
        })
    }

    /// Starts everything. What it had started when it failed is for [`Running::stop`].
    pub(crate) async fn start(&mut self, options: &Up) -> anyhow::Result<Stack> {
        // First what needs no waiting: a port in use is known at once.
        let listener =
            TcpListener::bind(("127.0.0.1", options.port)).map_err(|error| match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    anyhow::anyhow!("port {} is in use; --port takes another one", options.port)
                }
                _ => anyhow::anyhow!("port {} cannot be used: {error}", options.port),
            })?;
        let base_url = format!("http://{}", listener.local_addr()?);
        children::stop_left_behind().await?;
        let areas = areas::all();

        let database_url = self.start_database(options.fresh).await?;
        let brokers = self.start_bus(options, &areas).await?;
        let step = Step::start("issuer");
        let listener_of_issuer = stack::listen_again("issuer")?;
        let url = format!("http://{}", listener_of_issuer.local_addr()?);
        let issuer = Issuer::load_or_create(&stack::dev("issuer.key")?, &url)?.serve(listener_of_issuer)?;
        self.issuer = Some(issuer);
        step.done(&url);

        let mut common = Settings::from([
            ("DATABASE_URL", database_url.clone()),
            ("KAFKA_BROKERS", brokers.clone()),
            ("AUTH_ISSUER", url.clone()),
            // Guests are told apart by the address that the gateway saw.
            ("TRUSTED_PROXIES", "127.0.0.0/8".to_owned()),
            ("PUBLIC_LISTEN", "127.0.0.1:0".to_owned()),
            ("INTERNAL_LISTEN", "127.0.0.1:0".to_owned()),
            ("ADMIN_LISTEN", "127.0.0.1:0".to_owned()),
        ]);
        if options.processes {
            self.processes.build(&areas).await?;
        }
        let mut services = BTreeMap::new();
        for area in &areas {
            let step = Step::start(area.name);
            step.note("migrating");
            let settings = area.settings(&common);
            (area.migrate)(settings.clone()).await?;
            step.note("starting");
            let urls = if options.processes {
                self.processes.start(area, settings).await?
            } else {
                self.start_service(area, settings).await?
            };
            step.done(&urls.public_url);
            if let Some((variable, url)) = area.url_variable.zip(urls.internal_url.clone()) {
                common.insert(variable, url);
            }
            services.insert(area.name.to_owned(), urls);
        }
        let stack = Stack { base_url, issuer: url, database_url, brokers, services };
        self.start_gateway(listener, areas, &stack)?;
        if !options.no_seed {
            let step = Step::start("demo data");
            let detail = seed::plant(&stack, &step).await.context("the demo data could not be planted")?;
            step.done(detail);
        }
        stack.save()?;
        Ok(stack)
    }

    async fn start_database(&mut self, fresh: bool) -> anyhow::Result<String> {
        let step = Step::start("database");
        if let Some(url) = crate::variable("DATABASE_URL") {
            ensure!(!fresh, "--fresh is for the private database, but DATABASE_URL names another one");
            postgres::connect(&url).await.context("the database of DATABASE_URL refuses")?;
            step.done("from DATABASE_URL");
            return Ok(url);
        }
        let cluster = Cluster::prepare(Cluster::STACK, fresh, &step).await?;
        let cluster = self.cluster.insert(cluster);
        cluster.start(&step).await?;
        step.done(cluster.describe());
        Ok(cluster.url())
    }

    async fn start_bus(&mut self, options: &Up, areas: &[Area]) -> anyhow::Result<String> {
        let step = Step::start("broker");
        if options.fresh {
            Kafka::forget()?;
        }
        let external = crate::variable("KAFKA_BROKERS");
        let bus = self.bus.insert(Bus::open(external, options.broker, &areas::topics(areas), &step).await?);
        let brokers = bus.brokers()?;
        step.done(format!("{brokers}, {}", bus.describe()));
        Ok(brokers)
    }

    async fn start_service(&mut self, area: &Area, settings: Settings) -> anyhow::Result<Urls> {
        let process = Process::new();
        self.services.push((area.name, process.clone()));
        let endpoints = (area.start)(settings, process).await?;
        Ok(Urls {
            public_url: format!("http://{}", endpoints.public.context("no public port")?),
            internal_url: endpoints.internal.map(|address| format!("http://{address}")),
            admin_url: format!("http://{}", endpoints.admin),
        })
    }

    fn start_gateway(
        &mut self,
        listener: TcpListener,
        areas: Vec<Area>,
        stack: &Stack,
    ) -> anyhow::Result<()> {
        let areas = areas
            .into_iter()
            .filter_map(|area| Some((area, stack.services.get(area.name)?.public_url.clone())))
            .collect();
        let (server, handle) = gateway::serve(listener, Routes::new(areas)?)?;
        self.gateway = Some(handle);
        self.process.spawn("gateway", async { Ok(server.await?) });
        Ok(())
    }

    /// Resolves when a part has ended that should not have. The error of one in this process comes to
    /// light when it is stopped.
    async fn failed(&mut self) -> anyhow::Result<()> {
        let parts = self.services.iter().map(|(_, process)| process).chain([&self.process]);
        let stopping = select_all(parts.map(|process| Box::pin(process.stopping().cancelled_owned())));
        let kafka = async {
            match &mut self.bus {
                Some(Bus::Kafka(kafka)) => kafka.ended().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = stopping => Ok(()),
            error = self.processes.ended() => Err(error),
            error = kafka => Err(error),
        }
    }

    /// Stops what was started, last first; answers the first failure, but stops the rest all the same.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        let step = self.bus.is_some().then(|| Step::start("stopping"));
        let mut failures = Vec::new();
        Stack::forget()?;
        if let Some(gateway) = self.gateway {
            gateway.stop(true).await;
        }
        self.process.stop();
        failures.extend(self.process.finished().await.context("gateway").err());
        for (_, process) in &self.services {
            process.stop();
        }
        for (name, process) in &self.services {
            failures.extend(process.finished().await.context(*name).err());
        }
        failures.extend(self.processes.stop().await.err());
        drop(self.issuer);
        if let Some(bus) = self.bus {
            failures.extend(bus.close().await.err());
        }
        if let Some(cluster) = self.cluster {
            failures.extend(cluster.stop().await.err());
        }
        if let Some(step) = step {
            step.done("everything has ended");
        }
        drop(self.lock);
        match failures.into_iter().next() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}

/// What a person wants to know when everything runs.
fn summary(stack: &Stack, broker: &str) -> String {
    let mut places = crate::table(["", ""]);
    places.add_row(["base URL", &stack.base_url]);
    places.add_row(["database", &stack.database_url]);
    places.add_row(["brokers", &format!("{} {broker}", stack.brokers)]);
    places.add_row(["issuer", &stack.issuer]);
    let mut services = crate::table(["area", "API page", "public", "internal", "admin"]);
    for (name, urls) in &stack.services {
        let page = format!("{}/docs/{name}/", stack.base_url);
        let internal = urls.internal_url.as_deref().unwrap_or_default();
        services.add_row([name, &page, &urls.public_url, internal, &urls.admin_url]);
    }
    let (title, next) = (style("Ready").bold().green(), style("Try, in another terminal").bold());
    format!(
        "\n{title}\n{}\n\n{services}\n\n{}\n\n{next}\n\
         \x20 cargo dev demo                   a story over HTTP and Kafka, step by step\n\
         \x20 cargo dev events --from-start    what the areas tell each other\n\
         \x20 curl -H \"Authorization: Bearer $(cargo dev token anna)\" {}/api/v1/selections\n",
        places.trim_fmt().trim_start_matches('\n'),
        actors::table(),
        stack.base_url,
    )
}

/// Show what runs and where
#[derive(Args)]
pub(crate) struct Status {
    /// As JSON, for scripts
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let stack = match Stack::running() {
            Err(_) if self.json => {
                crate::say("{\"running\": false}");
                bail!("no stack is running");
            }
            stack => stack?,
        };
        if self.json {
            crate::say(&serde_json::to_string_pretty(&stack)?);
        } else {
            crate::say(&summary(&stack, ""));
        }
        Ok(())
    }
}
