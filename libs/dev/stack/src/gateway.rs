//! The base URL of the platform, which forwards each public path to the service that owns it.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::Duration;

use ::web::{Messages, ProblemBody};
use actix_web::body::SizedStream;
use actix_web::dev::{Server, ServerHandle};
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::http::{StatusCode, Uri};
use actix_web::web::{self, Data, Payload, ServiceConfig};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use anyhow::Context;
use futures_util::StreamExt;
use runtime::{Phase, Process};
use tokio::sync::mpsc;

use crate::feed::Feed;
use crate::page::{self, Page};
use crate::services::{self, ServiceEntry};
use devkit::identity::Identity;
use devkit::stack::{Stack, Urls};

/// Headers of one connection (RFC 9110, section 7.6.1), and headers that the gateway sets itself.
const OWN_HEADERS: [&str; 12] = [
    "connection",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-for",
    "x-forwarded-host",
];

/// Idle time of a connection, longer than that of the clients, so that the client closes it first.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// The routes of the base URL.
struct Routes {
    /// Each service with the URL of its public port.
    services: Vec<(ServiceEntry, String)>,
    client: reqwest::Client,
    messages: Messages,
}

impl Routes {
    fn new(services: Vec<(ServiceEntry, String)>) -> anyhow::Result<Self> {
        Ok(Self { services, client: devkit::http::client()?, messages: Messages::new(&[], "en")? })
    }
}

/// Serves the base URL of a stack: the public paths, the start page and the feed of events.
pub fn open(
    process: &Process,
    listener: TcpListener,
    services: &[ServiceEntry],
    stack: &Stack,
) -> anyhow::Result<(ServerHandle, Feed)> {
    let at = |url: fn(&Urls) -> &String| {
        let services = services.iter();
        services
            .filter_map(|service| Some((*service, url(stack.services.get(service.name)?).clone())))
            .collect()
    };
    let routes = Routes::new(at(|urls| &urls.public_url))?;
    let feed = Feed::new(services, stack.brokers.clone());
    let page = Page::new(at(|urls| &urls.admin_url), Identity::of(stack)?, feed.clone())?;
    let (server, handle) = serve(listener, routes, page)?;
    process.spawn(Phase::Work, "gateway", |_| async { Ok(server.await?) });
    let reading = feed.clone();
    process.spawn(Phase::Work, "feed", |_| reading.run());
    Ok((handle, feed))
}

/// Returns the server, which runs once its future is polled.
fn serve(listener: TcpListener, routes: Routes, page: Page) -> anyhow::Result<(Server, ServerHandle)> {
    let (routes, page) = (Data::new(routes), Data::new(page));
    let server = HttpServer::new(move || {
        let (routes, page) = (routes.clone(), page.clone());
        App::new().configure(|app| page::configure(app, page)).configure(|app| configure(app, routes))
    })
    .workers(2)
    .keep_alive(KEEP_ALIVE)
    .disable_signals()
    .shutdown_timeout(5)
    .listen(listener)
    .context("failed to serve the base URL")?
    .run();
    let handle = server.handle();
    Ok((server, handle))
}

fn configure(app: &mut ServiceConfig, routes: Data<Routes>) {
    app.app_data(routes).default_service(web::to(forward));
}

async fn forward(routes: Data<Routes>, request: HttpRequest, payload: Payload) -> HttpResponse {
    let owner = services::owner(&routes.services, |(service, _)| service, request.path());
    let Some((_, upstream)) = owner else {
        return problem(&request, &routes.messages, StatusCode::NOT_FOUND, "NOT_FOUND");
    };
    let Some(url) = target(upstream, request.uri()) else {
        return problem(&request, &routes.messages, StatusCode::NOT_FOUND, "NOT_FOUND");
    };
    // The server and the client use method types of two versions of one crate.
    let Ok(method) = reqwest::Method::from_bytes(request.method().as_str().as_bytes()) else {
        return problem(&request, &routes.messages, StatusCode::NOT_FOUND, "NOT_FOUND");
    };
    let mut forwarded = routes.client.request(method, url);
    for (name, value) in end_to_end(request.headers()) {
        forwarded = forwarded.header(name.as_str(), value.as_bytes());
    }
    if let Some(peer) = request.peer_addr() {
        // The gateway is the edge, so it does not forward addresses that the caller claims.
        forwarded = forwarded.header("x-forwarded-for", peer.ip().to_string());
    }
    if let Some(host) = request.headers().get(header::HOST) {
        forwarded = forwarded.header("x-forwarded-host", host.as_bytes());
    }
    let has_body = [header::CONTENT_LENGTH, header::TRANSFER_ENCODING]
        .iter()
        .any(|name| request.headers().contains_key(name));
    if has_body {
        forwarded = forwarded.body(stream(payload));
    }
    if let Ok(response) = forwarded.send().await {
        return to_response(response);
    }
    let mut unavailable =
        problem(&request, &routes.messages, StatusCode::SERVICE_UNAVAILABLE, "SERVICE_UNAVAILABLE");
    unavailable.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    unavailable
}

/// Returns the URL of a path at the service. Returns `None` if dot segments would change the path,
/// since a prefix must not lead to other paths.
fn target(upstream: &str, uri: &Uri) -> Option<reqwest::Url> {
    let path_and_query = uri.path_and_query()?.as_str();
    let url = reqwest::Url::parse(&format!("{upstream}{path_and_query}")).ok()?;
    (url.path() == uri.path()).then_some(url)
}

fn end_to_end(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    let named = headers.get(header::CONNECTION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    headers.iter().filter(move |(name, _)| {
        !OWN_HEADERS.contains(&name.as_str())
            && !named.split(',').any(|other| other.trim().eq_ignore_ascii_case(name.as_str()))
    })
}

/// Returns a body that reads the payload through a short channel. The payload is bound to its
/// thread; the body is not.
fn stream(mut payload: Payload) -> reqwest::Body {
    let (sender, receiver) = mpsc::channel(4);
    actix_web::rt::spawn(async move {
        while let Some(chunk) = payload.next().await {
            if sender.send(chunk.map_err(|error| std::io::Error::other(error.to_string()))).await.is_err() {
                break;
            }
        }
    });
    let chunks = futures_util::stream::unfold(receiver, async |mut receiver: mpsc::Receiver<_>| {
        receiver.recv().await.map(|chunk: std::io::Result<web::Bytes>| (chunk, receiver))
    });
    reqwest::Body::wrap_stream(chunks)
}

fn to_response(upstream: reqwest::Response) -> HttpResponse {
    let status = StatusCode::from_u16(upstream.status().as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = HttpResponse::build(status);
    let mut length = None;
    for (name, value) in upstream.headers() {
        if name == reqwest::header::CONTENT_LENGTH {
            length = value.to_str().ok().and_then(|text| text.parse().ok());
        } else if !OWN_HEADERS.contains(&name.as_str()) {
            response.append_header((name.as_str(), value.as_bytes()));
        }
    }
    let body = upstream.bytes_stream();
    match length {
        Some(length) => response.body(SizedStream::new(length, body)),
        None => response.streaming(body),
    }
}

/// Returns a problem as services do (RFC 9457).
fn problem(
    request: &HttpRequest,
    messages: &Messages,
    status: StatusCode,
    code: &'static str,
) -> HttpResponse {
    let trace = request.headers().get("traceparent").and_then(|value| value.to_str().ok()?.split('-').nth(1));
    let trace = trace.filter(|id| id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let body = ProblemBody {
        kind: format!("urn:problem:{}", code.to_lowercase().replace('_', "-")),
        title: messages.render(request, code).unwrap_or_else(|| code.to_owned()),
        status: status.as_u16(),
        detail: None,
        instance: request.path().to_owned(),
        code: code.to_owned(),
        trace_id: Some(trace.map_or_else(devkit::random_hex, str::to_owned)),
        errors: Vec::new(),
        members: BTreeMap::new(),
    };
    let mut response = HttpResponse::build(status).json(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response
}

#[cfg(test)]
mod tests {
    use actix_web::http::header;
    use actix_web::web::Data;
    use actix_web::{App, test};
    use serde_json::Value;
    use testkit::ports;

    use super::{Routes, configure};
    use crate::services;

    /// Sends a request to a gateway whose services are all stopped.
    async fn send(path: &str) -> (u16, Option<String>, Value) {
        let upstream = format!("http://127.0.0.1:{}", ports::free().unwrap());
        let services = services::all().into_iter().map(|service| (service, upstream.clone())).collect();
        let routes = Data::new(Routes::new(services).unwrap());
        let gateway = test::init_service(App::new().configure(|app| configure(app, routes))).await;
        let request =
            test::TestRequest::with_uri(path).insert_header((header::ACCEPT_LANGUAGE, "ru")).to_request();
        let response = test::call_service(&gateway, request).await;
        let retry =
            response.headers().get(header::RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned());
        (response.status().as_u16(), retry, test::read_body_json(response).await)
    }

    /// RULE-ALL-053: the base URL returns 404 for everything that is not a public path of a
    /// service.
    #[actix_web::test]
    async fn path_of_no_service_is_not_forwarded() {
        let paths = [
            "/health/ready",
            "/metrics",
            "/api/v1/internal/selections/x",
            "/api/v1/selectionsx",
            "/api/v1/selections/../internal/selections/x",
            "/api/v1/selections/%2e%2e/internal/selections/x",
        ];
        for path in paths {
            let (status, _, body) = send(path).await;
            assert_eq!((status, body["code"].as_str()), (404, Some("NOT_FOUND")), "{path}");
            assert_eq!(body["title"], "Здесь ничего нет");
        }
    }

    /// RULE-ALL-053: the paths of a service that is down are unavailable, not missing.
    #[actix_web::test]
    async fn stopped_service_returns_503_with_retry_after() {
        let (status, retry, body) = send("/api/v1/selections").await;
        assert_eq!((status, retry.as_deref()), (503, Some("1")));
        assert_eq!(body["code"], "SERVICE_UNAVAILABLE");
    }
}
