//! Listeners: an API on its port, and health and metrics on the admin port.

mod admin;
mod app;
mod known_routes;
mod socket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::Server as ActixServer;
use actix_web::{App, HttpResponse, HttpServer, web};
use runtime::{Phase, Process};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::limits::admission::Doors;
use crate::limits::caller::TrustedProxies;
use crate::listener::{Area, Callers, Listener};
use crate::observe::{Durations, Surroundings, durations};
use crate::openapi::document::describe;
use crate::openapi::page::Page;
use crate::server::admin::{metrics, ready};
use crate::server::app::ListenerApp;
use crate::server::socket::bind;

/// A connection whose first request has not come after so long is given up (408). It counts from the moment that the kernel has
/// it, so that a process that is late itself must not take its callers for slow.
const HEAD_PATIENCE: Duration = Duration::from_secs(20);

/// Of one listener, where its service does not say otherwise. An idle one takes 15 KiB: those of people alone take half of
/// what a replica is granted (256 MiB) at most; services, which have a listener of their own, keep few. Further ones wait
/// until some are closed.
pub const CONNECTIONS: usize = 8192;

/// Starts the listeners of one service.
pub struct Server {
    process: Process,
    config: Config,
    area: Area,
    durations: Durations,
    doors: Doors,
    connections: usize,
}

impl Server {
    pub fn new(process: &Process, config: Config, area: Area) -> Self {
        let durations = durations();
        process.metrics().register(|registry| {
            registry.register("http_server_request_duration_seconds", "Requests by route", durations.clone());
        });
        let doors = Doors::new(process.metrics(), config.most_under_way.get());
        Self { process: process.clone(), config, area, durations, doors, connections: CONNECTIONS }
    }

    /// Keeps so many connections of each listener open at once.
    #[must_use]
    pub fn connections(mut self, most: usize) -> Self {
        self.connections = most;
        self
    }

    /// Lets no request in while so many wait for the database already that it would wait too long.
    #[must_use]
    pub fn shed_while(mut self, is_database_crowded: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.doors.is_database_crowded = Arc::new(is_database_crowded);
        self
    }

    /// Opens an API; `data` adds what its handlers need. Answers the address, with the port that was
    /// given where the configuration asked for any.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn listen<D>(&self, listener: Listener, address: SocketAddr, data: D) -> anyhow::Result<SocketAddr>
    where
        D: Fn(&mut web::ServiceConfig) + Clone + Send + 'static,
    {
        let (socket, address) = bind(address)?;
        let app = self.app(listener, data)?;
        let server = HttpServer::new(move || app.clone().build())
            .workers(self.config.workers)
            .max_connections(self.connections / self.config.workers.max(1))
            .keep_alive(self.config.keep_alive)
            .client_request_timeout(HEAD_PATIENCE)
            .disable_signals()
            .shutdown_timeout(25)
            .listen(socket)?
            .run();
        self.process.spawn(Phase::Work, listener.name, |ending| until(server, ending));
        Ok(address)
    }

    /// What each thread of a listener serves.
    fn app<D>(&self, listener: Listener, data: D) -> anyhow::Result<ListenerApp<D>> {
        let surroundings = Surroundings {
            listener: listener.name,
            area: self.area.clone(),
            durations: self.durations.clone(),
            tracer: opentelemetry::global::tracer("web"),
        };
        let is_public = listener.callers == Callers::People;
        let api = describe(&self.area, &[listener]);
        Ok(ListenerApp {
            listener,
            data,
            area: web::Data::new(self.area.clone()),
            surroundings: web::Data::new(surroundings),
            door: web::Data::new(self.doors.of(listener.name)),
            trusted: web::Data::new(TrustedProxies(self.config.trusted_proxies.clone())),
            draining: web::Data::new(self.process.draining()),
            origins: if is_public { self.config.allowed_origins.clone() } else { Vec::new() },
            page: Page::new(&api, is_public)?,
            paths: api.paths,
        })
    }

    /// Opens health and metrics, which outlive the APIs.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn admin(&self) -> anyhow::Result<SocketAddr> {
        let (socket, address) = bind(self.config.admin)?;
        let process = self.process.clone();
        let server = HttpServer::new(move || {
            App::new()
                .app_data(web::Data::new(process.clone()))
                .app_data(web::Data::new(process.metrics().clone()))
                .route("/health/live", web::get().to(HttpResponse::NoContent))
                .route("/health/ready", web::get().to(ready))
                .route("/metrics", web::get().to(metrics))
        })
        .workers(1)
        .disable_signals()
        .listen(socket)?
        .run();
        self.process.spawn(Phase::Watch, "admin", |ending| until(server, ending));
        Ok(address)
    }
}

/// Serves until `stop`, then finishes the requests in flight.
async fn until(server: ActixServer, stop: CancellationToken) -> anyhow::Result<()> {
    let handle = server.handle();
    let stopping = async {
        stop.cancelled().await;
        handle.stop(true).await;
        // The server's own future ends now.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        result = server => Ok(result?),
        () = stopping => Ok(()),
    }
}
