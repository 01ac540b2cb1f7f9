//! The server of a service: an API per listener, and health and metrics on the admin port.

mod admin;
mod app;
mod connection;
pub(crate) mod exchange;
mod framing;
mod known_routes;
mod send_rate;
mod socket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_http::error::DispatchError;
use actix_http::{HttpService, Protocol};
use actix_service::{IntoServiceFactory, ServiceFactoryExt, apply_fn_factory, map_config};
use actix_web::dev::{AppConfig, Server as ActixServer, Service, ServiceFactory};
use actix_web::{App, HttpResponse, HttpServer, web};
use prometheus_client::metrics::counter::Counter;
use runtime::{Phase, Process};
use tokio::net::TcpStream;
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
use crate::server::connection::{Connection, PeerLimit, REQUEST_HEAD_TIMEOUT};
use crate::server::socket::bind;

/// The time for requests in flight at a shutdown. It equals the timeout of [`Phase::Work`].
const SHUTDOWN_TIMEOUT_SECONDS: u64 = 25;

/// The time for the caller to close a connection that the listener has shut down.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);

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
    refused_connections: Counter,
}

impl Server {
    pub fn new(process: &Process, config: Config, service: ServiceInfo) -> Self {
        let (durations, refused_connections) = (durations(), Counter::default());
        process.metrics().register(|registry| {
            registry.register(
                "http_server_request_duration_seconds",
                "Duration of requests by route",
                durations.clone(),
            );
            registry.register(
                "http_server_connections_refused",
                "Connections closed because their peer had too many",
                refused_connections.clone(),
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
            refused_connections,
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
    pub fn shed_load_while(
        mut self,
        is_database_saturated: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
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
        let limit = PeerLimit::new(
            self.config.max_connections_per_peer.get(),
            TrustedProxies(self.config.trusted_proxies.clone()),
            self.refused_connections.clone(),
        );
        let keep_alive = self.config.keep_alive;
        let stopping = self.process.stopping();
        let server = ActixServer::build()
            .workers(self.config.workers)
            .max_concurrent_connections(self.max_connections / self.config.workers.max(1))
            .disable_signals()
            .shutdown_timeout(SHUTDOWN_TIMEOUT_SECONDS)
            .listen(listener.name, socket, move || {
                serve_connections(app.clone(), limit.clone(), keep_alive, address, stopping.clone())
            })?
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

/// Serves the connections that a thread of a listener accepts.
///
/// [`HttpServer`] accepts no custom type of stream, so this function composes the parts of a server
/// itself.
fn serve_connections<D>(
    app: ListenerApp<D>,
    limit: PeerLimit,
    keep_alive: Duration,
    address: SocketAddr,
    stopping: CancellationToken,
) -> impl ServiceFactory<TcpStream, Config = (), Response = (), Error = DispatchError, InitError = ()>
where
    D: Fn(&mut web::ServiceConfig) + 'static,
{
    let app = app.build().into_factory().map_err(|error| error.error_response());
    let http = HttpService::build()
        .graceful_shutdown_signal(move || stopping.clone().cancelled_owned())
        .keep_alive(keep_alive)
        .client_request_timeout(REQUEST_HEAD_TIMEOUT)
        .client_disconnect_timeout(DISCONNECT_TIMEOUT)
        .local_addr(address)
        .on_connect_ext(|connection: &Connection, data| drop(data.insert(connection.exchange())))
        .finish(map_config(app, |()| AppConfig::default()));
    apply_fn_factory(http, move |stream: TcpStream, http| {
        let connection = Connection::accept(stream, &limit, keep_alive);
        let served = connection.map(|(connection, peer)| http.call((connection, Protocol::Http1, peer)));
        async move {
            match served {
                Some(served) => served.await,
                None => Ok(()),
            }
        }
    })
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
