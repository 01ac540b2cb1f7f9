//! Listeners: an API on its port, and health and metrics on the admin port.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use actix_router::ResourceDef;
use actix_web::body::MessageBody;
use actix_web::dev::{Server as ActixServer, ServiceRequest, ServiceResponse};
use actix_web::http::{ConnectionType, Method};
use actix_web::middleware::{Condition, Next, from_fn};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use anyhow::Context;
use runtime::{Metrics, Phase, Process};
use tokio::net::TcpSocket;
use tokio_util::sync::CancellationToken;
use utoipa::openapi::Paths;
use utoipa::openapi::path::PathItem;
use utoipa_actix_web::AppExt;

use crate::document::{describe, operations};
use crate::headers::{self, cors};
use crate::middleware::{Durations, Surroundings, durations, surround};
use crate::overload::{Doors, admit};
use crate::page::Page;
use crate::rate_limit::TrustedProxies;
use crate::unread::hold_body;
use crate::{Config, Messages, Problem};

/// A caller that for so long acknowledges nothing of what is on its way to it, or has no room for it, is given up.
#[cfg(target_os = "linux")]
const UNREAD: Duration = Duration::from_secs(20);

/// A connection whose first request has not come after so long is given up (408). It counts from the moment that the kernel has
/// it, so that a process that is late itself must not take its callers for slow.
const HEAD_PATIENCE: Duration = Duration::from_secs(20);

/// What the kernel takes of an answer before its reader has taken any of it (it counts twice as much, with its own
/// overhead). Left to itself it takes 4 MiB a connection, and a container pays for them. 2 MiB over the loopback come
/// at 2 GB/s, as without; a buffer of half the size has them wait for half a second.
const SEND_BUFFER: u32 = 64 * 1024;

/// Of one listener, where its service does not say otherwise. An idle one takes 15 KiB: those of people alone take half of
/// what a replica is granted (256 MiB) at most; services, which have a listener of their own, keep few. Further ones wait
/// until some are closed.
pub const CONNECTIONS: usize = 8192;
/// Connections that wait to be taken in; one that finds no room tries again after a second. The 128 that are usual
/// come in a few milliseconds when many callers connect anew.
const BACKLOG: u32 = 1024;

/// Where a service declares its operations; each one also describes itself.
pub type Routes<'a> = utoipa_actix_web::service_config::ServiceConfig<'a>;

/// What all listeners of a service have in common.
#[derive(Clone)]
pub struct Area {
    pub name: &'static str,
    /// Put before the common codes, such as `SELECTIONS_`; empty in most areas.
    pub code_prefix: &'static str,
    pub messages: web::Data<Messages>,
}

impl Area {
    /// `messages` are pairs of a language and the text of its Fluent file.
    ///
    /// # Errors
    /// Message files that cannot be used.
    pub fn new(
        name: &'static str,
        code_prefix: &'static str,
        messages: &[(&str, &str)],
        default_language: &str,
    ) -> anyhow::Result<Self> {
        let messages = web::Data::new(Messages::new(messages, default_language)?);
        Ok(Self { name, code_prefix, messages })
    }

    /// A code as callers see it.
    pub(crate) fn code(&self, id: &str, is_common: bool) -> String {
        let prefix = if is_common { self.code_prefix } else { "" };
        format!("{prefix}{id}")
    }
}

/// Who calls at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// People with their tokens, and guests where an operation lets them in.
    People,
    /// Other services with their machine tokens.
    Services,
}

/// The operations behind a port.
#[derive(Clone, Copy)]
pub struct Listener {
    pub name: &'static str,
    pub callers: Callers,
    /// The groups of its operations, each with a sentence about it.
    pub tags: &'static [(&'static str, &'static str)],
    pub routes: fn(&mut Routes<'_>),
}

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
        let surroundings = web::Data::new(Surroundings {
            listener: listener.name,
            callers: listener.callers,
            area: self.area.clone(),
            durations: self.durations.clone(),
            tracer: opentelemetry::global::tracer("web"),
            door: self.doors.of(listener.name),
        });
        let draining = web::Data::new(self.process.draining());
        let trusted = web::Data::new(TrustedProxies(self.config.trusted_proxies.clone()));
        let area = self.area.name;
        let origins = match listener.callers {
            Callers::People => self.config.allowed_origins.clone(),
            Callers::Services => Vec::new(),
        };
        let (socket, address) = bind(address)?;
        let api = describe(&self.area, &[listener]);
        let page = Page::new(&api, listener.callers == Callers::People)?;
        let server = HttpServer::new(move || {
            let routes = web::Data::new(KnownRoutes::of(&api.paths));
            App::new()
                // Before the routes: their scope takes every path, and answers 404 to what it does not know.
                .service(web::redirect(format!("/docs/{area}"), format!("/docs/{area}/")))
                .service(page.clone().serve(area))
                .into_utoipa_app()
                .configure(listener.routes)
                .into_app()
                .configure(data.clone())
                .app_data(surroundings.clone())
                .app_data(trusted.clone())
                .app_data(routes)
                .app_data(draining.clone())
                .app_data(web::PathConfig::default().error_handler(|_, _| Problem::not_found().into()))
                .default_service(web::to(unmatched))
                .wrap(from_fn(surround))
                .wrap(from_fn(admit))
                .wrap(from_fn(hold_body))
                // Outside the door: who is not let in hears why.
                .wrap(Condition::new(!origins.is_empty(), cors(&origins)))
                .wrap(headers::defaults())
                .wrap(from_fn(end_connection))
        })
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

/// A process that drains ends each connection with an answer: closed while it is idle, it may be closed just when the next
/// request is on its way, which its caller must not repeat unless it may be done twice.
async fn end_connection<B: MessageBody>(
    draining: web::Data<CancellationToken>,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, actix_web::Error> {
    let mut response = next.call(request).await?;
    if draining.is_cancelled() {
        response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
    }
    Ok(response)
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

fn bind(address: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let socket = open(address).with_context(|| format!("cannot listen on {address}"))?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

fn open(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart need not wait for what is left of the connections of before.
    socket.set_reuseaddr(true)?;
    // Accepted connections have both from their listener.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(&socket).set_tcp_user_timeout(Some(UNREAD))?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

async fn ready(process: web::Data<Process>) -> HttpResponse {
    match process.ready().await {
        Ok(()) => HttpResponse::NoContent().finish(),
        Err(missing) => HttpResponse::ServiceUnavailable().body(missing.join("\n")),
    }
}

async fn metrics(metrics: web::Data<Metrics>) -> HttpResponse {
    match metrics.encode() {
        Ok(text) => HttpResponse::Ok()
            .content_type("application/openmetrics-text; version=1.0.0; charset=utf-8")
            .body(text),
        Err(error) => {
            tracing::error!(%error, "metrics cannot be written");
            HttpResponse::InternalServerError().finish()
        }
    }
}

/// Every documented path with its methods, to tell an unknown route from a wrong method.
struct KnownRoutes(Vec<(ResourceDef, Vec<Method>)>);

impl KnownRoutes {
    fn of(paths: &Paths) -> Self {
        let methods = |item: &PathItem| operations(&mut item.clone()).map(|(method, _)| method).collect();
        let known = paths.paths.iter().map(|(path, item)| (ResourceDef::new(path.as_str()), methods(item)));
        Self(known.collect())
    }

    /// Each method once: a path may be an operation's own, and fit another's parameter.
    fn allowed(&self, path: &str) -> Vec<Method> {
        let fitting = self.0.iter().filter(|(route, _)| route.is_match(path));
        fitting.flat_map(|(_, methods)| methods).fold(Vec::new(), |mut allowed, method| {
            if !allowed.contains(method) {
                allowed.push(method.clone());
            }
            allowed
        })
    }
}

async fn unmatched(request: HttpRequest, routes: web::Data<KnownRoutes>) -> Result<HttpResponse, Problem> {
    let allowed = routes.allowed(request.path());
    Err(if allowed.is_empty() { Problem::not_found() } else { Problem::method_not_allowed(allowed) })
}
