//! The start page of the local stack, on which a visitor signs in as one of the demo's people.
//!
//! The page consists of plain files and calls the public APIs. No service depends on it. The file
//! `platform-api.js` is a copy of the client in `contracts/clients/typescript`, so that no build
//! needs Node.

use std::net::IpAddr;
use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{CACHE_CONTROL, HOST};
use actix_web::http::uri::Authority;
use actix_web::middleware::{DefaultHeaders, Next, from_fn};
use actix_web::web::{self, Data, Path, ServiceConfig};
use actix_web::{HttpResponse, Responder};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::feed::Feed;
use crate::services::ServiceEntry;
use devkit::actors::ACTORS;
use devkit::identity::Identity;
use devkit::livekit;

/// Timeout of a health check.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(1);

/// The content security policy of the page. A browser may connect to this origin and to the media
/// server only.
const POLICY: &str = "default-src 'self'; img-src data:; connect-src 'self' ws://127.0.0.1:7880 http://127.0.0.1:7880; \
                      media-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The response to a request with the host name of another site.
const FOREIGN_HOST: &str = "This page is served only under localhost, *.localhost, 127.0.0.1 and [::1]. Open it under one of these names.\n";

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The static files below `/stack/`.
const FILES: [(&str, &str, &str); 17] = [
    ("page.css", STYLE, include_str!("page/page.css")),
    ("main.js", SCRIPT, include_str!("page/main.js")),
    ("dom.js", SCRIPT, include_str!("page/dom.js")),
    ("i18n.js", SCRIPT, include_str!("page/i18n.js")),
    ("words.js", SCRIPT, include_str!("page/words.js")),
    ("session.js", SCRIPT, include_str!("page/session.js")),
    ("platform-api.js", SCRIPT, include_str!("page/platform-api.js")),
    ("api.js", SCRIPT, include_str!("page/api.js")),
    ("ask.js", SCRIPT, include_str!("page/ask.js")),
    ("feed.js", SCRIPT, include_str!("page/feed.js")),
    ("project.js", SCRIPT, include_str!("page/project.js")),
    ("grid.js", SCRIPT, include_str!("page/grid.js")),
    ("board.js", SCRIPT, include_str!("page/board.js")),
    ("chat.js", SCRIPT, include_str!("page/chat.js")),
    ("call.js", SCRIPT, include_str!("page/call.js")),
    ("money.js", SCRIPT, include_str!("page/money.js")),
    ("imports.js", SCRIPT, include_str!("page/imports.js")),
];

/// The data of the page.
pub struct Page {
    /// Each service with the URL of its admin port.
    services: Vec<(ServiceEntry, String)>,
    identity: Identity,
    feed: Feed,
    client: reqwest::Client,
}

impl Page {
    pub fn new(
        services: Vec<(ServiceEntry, String)>,
        identity: Identity,
        feed: Feed,
    ) -> anyhow::Result<Self> {
        Ok(Self { services, identity, feed, client: devkit::http::client()? })
    }

    async fn is_ready(&self, admin: &str) -> bool {
        let response = self.client.get(format!("{admin}/health/ready")).timeout(HEALTH_TIMEOUT).send().await;
        response.is_ok_and(|response| response.status().is_success())
    }
}

pub fn configure(app: &mut ServiceConfig, page: Data<Page>) {
    let policy = || DefaultHeaders::new().add(("content-security-policy", POLICY));
    app.app_data(page)
        .service(web::resource("/").wrap(policy()).wrap(from_fn(loopback_only)).get(index))
        .service(
            web::scope("/stack")
                .wrap(from_fn(loopback_only))
                .route("/about", web::get().to(about))
                .route("/events", web::get().to(events))
                .route("/livekit-client.js", web::get().to(livekit_client))
                .route("/tokens/{actor}", web::post().to(sign_in))
                .route("/{file}", web::get().to(file)),
        );
}

/// Rejects requests with a host name of another site. Such a name could resolve to this machine,
/// and its pages could then read the tokens (DNS rebinding).
async fn loopback_only(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> actix_web::Result<ServiceResponse<impl MessageBody>> {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    if host.is_some_and(is_loopback) {
        return Ok(next.call(request).await?.map_into_left_body());
    }
    let refusal = HttpResponse::Forbidden().content_type("text/plain; charset=utf-8").body(FOREIGN_HOST);
    Ok(request.into_response(refusal).map_into_right_body())
}

/// Returns whether a `Host` header names this machine.
fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or_else(|_| name == "localhost" || name.ends_with(".localhost"), |ip| ip.is_loopback())
}

async fn index() -> impl Responder {
    HttpResponse::Ok()
        .content_type(HTML)
        .insert_header((CACHE_CONTROL, "no-cache"))
        .body(include_str!("page/index.html"))
}

async fn file(name: Path<String>) -> HttpResponse {
    match FILES.iter().find(|(file, ..)| *file == *name) {
        Some((_, kind, text)) => {
            HttpResponse::Ok().content_type(*kind).insert_header((CACHE_CONTROL, "no-cache")).body(*text)
        }
        None => HttpResponse::NotFound().finish(),
    }
}

/// Returns LiveKit's client for browsers if it is installed.
async fn livekit_client() -> HttpResponse {
    match livekit::browser_client().await {
        Some(text) => HttpResponse::Ok().content_type(SCRIPT).body(text),
        None => HttpResponse::NotFound().finish(),
    }
}

/// Returns the services with their health, and the people.
async fn about(page: Data<Page>) -> impl Responder {
    let health = join_all(page.services.iter().map(|(_, admin)| page.is_ready(admin))).await;
    let services = page.services.iter().zip(health);
    let services: Vec<Value> = services
        .map(|((service, _), ready)| json!({"name": service.name, "about": service.about, "ready": ready}))
        .collect();
    let people: Vec<Value> = ACTORS
        .iter()
        .map(|actor| json!({"name": actor.name, "about": actor.about, "may": actor.permissions_text(), "id": actor.user}))
        .collect();
    HttpResponse::Ok()
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(json!({"services": services, "people": people}))
}

/// Streams the events of the bus.
async fn events(page: Data<Page>) -> impl Responder {
    HttpResponse::Ok()
        .content_type("text/event-stream")
        .insert_header((CACHE_CONTROL, "no-store"))
        .streaming(page.feed.listen())
}

/// Returns a token of an actor. Other sites cannot read the response, since no other origin is
/// allowed.
async fn sign_in(page: Data<Page>, name: Path<String>) -> HttpResponse {
    let Some(actor) = ACTORS.iter().find(|actor| actor.name == *name) else {
        return HttpResponse::NotFound().finish();
    };
    match page.identity.token(actor).await {
        Ok(token) => HttpResponse::Ok()
            .content_type("text/plain; charset=utf-8")
            .insert_header(("cache-control", "no-store"))
            .body(token),
        // Identity is down, perhaps stopped by the visitor.
        Err(_) => HttpResponse::ServiceUnavailable().finish(),
    }
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HOST;
    use actix_web::web::Data;
    use actix_web::{App, test};
    use testkit::issuer::Issuer;

    use super::{FILES, FOREIGN_HOST, Page, configure};
    use crate::feed::Feed;
    use crate::services;
    use devkit::actors::ACTORS;
    use devkit::identity::Identity;

    /// Returns status, policy and text while every service is stopped.
    async fn send(request: test::TestRequest) -> (u16, String, String) {
        send_with_host("127.0.0.1:8080", request).await
    }

    /// Returns the same for a request with this `Host` header.
    async fn send_with_host(host: &str, request: test::TestRequest) -> (u16, String, String) {
        let feed = Feed::new(&services::all(), String::new());
        let services =
            services::all().into_iter().map(|service| (service, "http://127.0.0.1:1".to_owned())).collect();
        let issuer = Issuer::new("http://issuer").unwrap();
        let identity = Identity::new(issuer, "http://127.0.0.1:1".to_owned()).unwrap();
        let page = Data::new(Page::new(services, identity, feed).unwrap());
        let app = test::init_service(App::new().configure(|app| configure(app, page))).await;
        let response = test::call_service(&app, request.insert_header((HOST, host)).to_request()).await;
        let policy = response.headers().get("content-security-policy");
        let policy = policy.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        let status = response.status().as_u16();
        (status, policy, String::from_utf8(test::read_body(response).await.to_vec()).unwrap())
    }

    #[actix_web::test]
    async fn about_lists_services_and_people() {
        let (status, _, about) = send(test::TestRequest::with_uri("/stack/about")).await;
        let about: serde_json::Value = serde_json::from_str(&about).unwrap();
        let names = |list: &str| -> Vec<String> {
            let list = about[list].as_array().unwrap().iter();
            list.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(status, 200);
        assert_eq!(names("services"), services::all().iter().map(|service| service.name).collect::<Vec<_>>());
        assert_eq!(names("people"), ACTORS.map(|actor| actor.name));
        assert_eq!(about["services"][0]["ready"], false);
    }

    #[actix_web::test]
    async fn each_service_has_a_description_in_russian() {
        let (_, _, words) = FILES.into_iter().find(|(name, ..)| *name == "words.js").unwrap();
        for service in services::all() {
            assert!(words.contains(&format!("\"service.{}\": ", service.name)), "{}", service.name);
        }
    }

    /// The policy forbids inline scripts and handlers in attributes. No script turns a text into
    /// markup.
    #[actix_web::test]
    async fn start_page_is_plain_files_of_this_origin() {
        let (status, policy, page) = send(test::TestRequest::with_uri("/")).await;
        assert_eq!(status, 200);
        assert!(policy.starts_with("default-src 'self';") && !policy.contains("unsafe"), "{policy}");
        assert!(!page.contains("://") && !page.contains("style=") && !page.contains(" on"), "{page}");
        for part in ["/stack/page.css", "/stack/main.js"] {
            assert!(page.contains(part), "{page}");
        }
        for (name, _, text) in FILES {
            let (status, _, served) = send(test::TestRequest::with_uri(&format!("/stack/{name}"))).await;
            assert!(status == 200 && served == text, "{name}");
            for refused in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
                assert!(!text.contains(refused), "{name} has {refused}");
            }
            for import in text.lines().filter_map(|line| line.split(" from \"./").nth(1)) {
                let import = import.trim_end_matches("\";");
                assert!(
                    FILES.iter().any(|(file, ..)| *file == import),
                    "{name} imports {import}, which is not served"
                );
            }
        }
        assert_eq!(send(test::TestRequest::with_uri("/stack/page.rs")).await.0, 404);
    }

    #[actix_web::test]
    async fn only_actors_get_tokens() {
        let (status, _, token) = send(test::TestRequest::post().uri("/stack/tokens/anna")).await;
        assert_eq!((status, token.split('.').count()), (200, 3));
        // Identity determines the permissions of employees, and it is down here.
        assert_eq!(send(test::TestRequest::post().uri("/stack/tokens/maria")).await.0, 503);
        assert_eq!(send(test::TestRequest::post().uri("/stack/tokens/news")).await.0, 404);
        assert_ne!(send(test::TestRequest::with_uri("/stack/tokens/anna")).await.0, 200);
    }

    /// RULE-ALL-090: a foreign host name gets neither the page nor a token, however the path is
    /// written. A loopback name gets both.
    #[actix_web::test]
    async fn foreign_host_name_is_rejected() {
        let hosts = [
            "evil.example:8080",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "192.168.1.2:8080",
            "0.0.0.0",
            "",
        ];
        for host in hosts {
            for path in ["/stack/tokens/anna", "/%73tack/tokens/anna"] {
                let (status, _, text) = send_with_host(host, test::TestRequest::post().uri(path)).await;
                assert_eq!((status, &*text), (403, FOREIGN_HOST), "{host} {path}");
            }
            for path in ["/", "/stack/about", "/stack/events", "/stack/main.js", "/stack/none"] {
                let (status, _, text) = send_with_host(host, test::TestRequest::with_uri(path)).await;
                assert_eq!((status, &*text), (403, FOREIGN_HOST), "{host} {path}");
            }
        }
        let hosts =
            ["localhost:8080", "LOCALHOST", "127.0.0.1:8080", "127.0.0.2", "[::1]:8080", "stack.localhost:1"];
        for host in hosts {
            assert_eq!(send_with_host(host, test::TestRequest::with_uri("/")).await.0, 200, "{host}");
            assert_eq!(
                send_with_host(host, test::TestRequest::post().uri("/stack/tokens/anna")).await.0,
                200,
                "{host}"
            );
        }
    }
}
