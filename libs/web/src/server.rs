//! The server of a service: an API per listener, and health and metrics on the admin port.

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
use crate::limits::admission::AdmissionControl;
use crate::limits::caller::TrustedProxies;
use crate::listener::{Callers, Listener, ServiceInfo};
use crate::observe::{Durations, ListenerContext, durations};
use crate::openapi::document::describe;
use crate::openapi::page::ApiPage;
use crate::server::admin::{metrics, ready};
use crate::server::app::ListenerApp;
use crate::server::socket::bind;

/// The time in which the head of a connection's first request must arrive. A later head gets 408.
///
/// The time starts when the kernel accepts the connection.
/// A shorter time would reject callers because of the delay of a busy process.
const REQUEST_HEAD_TIMEOUT: Duration = Duration::from_secs(20);

/// The time for requests in flight at a shutdown, which is that of the process's work phase.
const SHUTDOWN_TIMEOUT_SECONDS: u64 = 25;

/// The default limit of open connections per listener. Further connections wait until some close.
///
/// An idle connection takes 15 KiB.
/// The connections of the public listener therefore take at most half of a replica's 256 MiB.
/// The internal listener has few connections, because only services call it.
pub const DEFAULT_MAX_CONNECTIONS: usize = 8192;

/// Starts the listeners of one service.
pub struct Server {
    process: Process,
    config: Config,
    service: ServiceInfo,
    durations: Durations,
    admission: AdmissionControl,
    max_connections: usize,
}

impl Server {
    pub fn new(process: &Process, config: Config, service: ServiceInfo) -> Self {
        let durations = durations();
        process.metrics().register(|registry| {
            registry.register(
                "http_server_request_duration_seconds",
                "Duration of requests by route",
                durations.clone(),
            );
        });
        let admission = AdmissionControl::new(process.metrics(), config.max_in_flight.get());
        Self {
            process: process.clone(),
            config,
            service,
            durations,
            admission,
            max_connections: DEFAULT_MAX_CONNECTIONS,
        }
    }

    /// Limits the open connections of each listener.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// Rejects requests while `is_database_saturated` returns true.
    #[must_use]
    pub fn shed_while(mut self, is_database_saturated: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.admission.is_database_saturated = Arc::new(is_database_saturated);
        self
    }

    /// Starts a listener, whose handlers receive the data that `configure_data` registers.
    ///
    /// Returns the bound address, with the actual port where `address` has port 0.
    ///
    /// # Errors
    /// An address that cannot be bound, or an OpenAPI document that cannot be serialized.
    pub fn listen<D>(
        &self,
        listener: Listener,
        address: SocketAddr,
        configure_data: D,
    ) -> anyhow::Result<SocketAddr>
    where
        D: Fn(&mut web::ServiceConfig) + Clone + Send + 'static,
    {
        let (socket, address) = bind(address)?;
        let app = self.listener_app(listener, configure_data)?;
        let server = HttpServer::new(move || app.clone().build())
            .workers(self.config.workers)
            .max_connections(self.max_connections / self.config.workers.max(1))
            .keep_alive(self.config.keep_alive)
            .client_request_timeout(REQUEST_HEAD_TIMEOUT)
            .disable_signals()
            .shutdown_timeout(SHUTDOWN_TIMEOUT_SECONDS)
            .listen(socket)?
            .run();
        self.process.spawn(Phase::Work, listener.name, |stopping| serve_until(server, stopping));
        Ok(address)
    }

    /// Collects the parts of a listener's application, which each thread builds for itself.
    fn listener_app<D>(&self, listener: Listener, configure_data: D) -> anyhow::Result<ListenerApp<D>> {
        let context = ListenerContext {
            listener: listener.name,
            durations: self.durations.clone(),
            tracer: opentelemetry::global::tracer("web"),
        };
        let is_public = listener.callers == Callers::Users;
        let api = describe(&self.service, &[listener]);
        Ok(ListenerApp {
            listener,
            configure_data,
            service: web::Data::new(self.service.clone()),
            context: web::Data::new(context),
            admission: web::Data::new(self.admission.for_listener(listener.name)),
            trusted_proxies: web::Data::new(TrustedProxies(self.config.trusted_proxies.clone())),
            draining: web::Data::new(self.process.draining()),
            origins: if is_public { self.config.allowed_origins.clone() } else { Vec::new() },
            page: ApiPage::new(&api, is_public)?,
            paths: api.paths,
        })
    }

    /// Starts health checks and metrics on the admin port, which stops after the listeners.
    ///
    /// # Errors
    /// An address that cannot be bound.
    pub fn listen_admin(&self) -> anyhow::Result<SocketAddr> {
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
        self.process.spawn(Phase::Monitoring, "admin", |stopping| serve_until(server, stopping));
        Ok(address)
    }
}

/// Serves until `stopping`, then finishes the requests in flight.
async fn serve_until(server: ActixServer, stopping: CancellationToken) -> anyhow::Result<()> {
    let handle = server.handle();
    let graceful_stop = async {
        stopping.cancelled().await;
        handle.stop(true).await;
        // The result comes from the server's future, which ends after the stop.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        result = server => Ok(result?),
        () = graceful_stop => Ok(()),
    }
}
