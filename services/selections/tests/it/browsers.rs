//! What browsers are told beside the answer: what to keep of it, and whose pages may read it.

use reqwest::Method;
use reqwest::header::HeaderMap;
use selections::Service;
use testkit::client::{Answer, Client, send};
use testkit::service::Running;

use crate::{SELECTIONS, create_selection, open_path, service};

const ORIGIN: &str = "https://example.org";

fn header<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Conventions, Headers: nobody keeps an answer or guesses what it is, whatever it says; a handler may know better.
#[tokio::test]
async fn nobody_keeps_an_answer_or_guesses_what_it_is() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    for (caller, path, status, kept) in [
        (&owner, SELECTIONS, 200, "no-store"),
        (&service().guest(), &*open_path(&selection), 200, "no-store"),
        (&service().guest(), SELECTIONS, 401, "no-store"),
        (&owner, "/nowhere", 404, "no-store"),
        (&owner, "/docs/selections/", 200, "max-age=3600"),
    ] {
        let answer = caller.get(path).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("cache-control"), kept, "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
    }
}

/// What a page of `origin` gets that asks as `caller`.
async fn ask(caller: &Client, origin: &str) -> Answer {
    send(caller.request(Method::GET, SELECTIONS).header("origin", origin)).await
}

/// Conventions, CORS: pages of the origins that are configured may call, and read every answer, refusals too.
#[tokio::test]
async fn pages_of_allowed_origins_read_every_answer() {
    let settings = [
        ("CORS_ALLOWED_ORIGINS", "https://example.org,http://localhost:3000"),
        ("ACTOR_REQUESTS_PER_MINUTE", "1"),
    ];
    let service = Running::start::<Service>(&settings);
    let (_, owner) = service.user();
    for (caller, status) in [(&owner, 200), (&owner, 429), (&service.guest(), 401)] {
        let answer = ask(caller, ORIGIN).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (status, ORIGIN));
        let exposed = answer.header("access-control-expose-headers").to_lowercase();
        for header in ["retry-after", "etag", "deprecation", "sunset"] {
            assert!(exposed.contains(header), "{header}: {exposed}");
        }
        assert_eq!(answer.header("access-control-allow-credentials"), "");
        assert!(answer.header("vary").to_lowercase().contains("origin"), "caches keep origins apart");
    }
    assert_eq!(ask(&service.guest(), "https://example.com").await.header("access-control-allow-origin"), "");
    let internal = service.at_internal(None).request(Method::GET, "/").header("origin", ORIGIN).send().await;
    assert_eq!(
        header(internal.unwrap().headers(), "access-control-allow-origin"),
        "",
        "services have no pages"
    );
}

/// Conventions, CORS: a browser that asks first hears what it may send.
#[tokio::test]
async fn a_preflight_tells_what_may_be_sent() {
    let service = Running::start::<Service>(&[("CORS_ALLOWED_ORIGINS", ORIGIN)]);
    let preflight = async |method: &str, headers: &str| {
        let request = service.guest().request(Method::OPTIONS, SELECTIONS).header("origin", ORIGIN);
        let request = request.header("access-control-request-method", method);
        request.header("access-control-request-headers", headers).send().await.unwrap()
    };
    let allowed = preflight("PUT", "authorization,content-type,traceparent,if-none-match").await;
    assert_eq!(allowed.status(), 200);
    assert_eq!(header(allowed.headers(), "access-control-allow-origin"), ORIGIN);
    assert!(header(allowed.headers(), "access-control-allow-methods").contains("PUT"));
    assert_eq!(header(allowed.headers(), "access-control-max-age"), "3600");
    for (method, headers) in [("TRACE", "authorization"), ("PUT", "x-forwarded-for")] {
        assert_eq!(preflight(method, headers).await.status(), 400, "{method} {headers}");
    }
}

/// Conventions, CORS: none by default.
#[tokio::test]
async fn no_page_may_call_unless_its_origin_is_configured() {
    let (_, owner) = service().user();
    let answer = ask(&owner, ORIGIN).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, ""));
    let preflight = service().guest().request(Method::OPTIONS, SELECTIONS).header("origin", ORIGIN);
    let refused = preflight.header("access-control-request-method", "GET").send().await.unwrap();
    assert_eq!(refused.status(), 405);
}
