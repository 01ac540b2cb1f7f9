//! Cache and CORS headers.

use reqwest::Method;
use reqwest::header::HeaderMap;
use selections::Service;
use testkit::client::{Client, Response, send};
use testkit::service::Running;

use crate::{SELECTIONS, create_selection, open_path, service};

const ORIGIN: &str = "https://example.org";

fn header<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// RULE-ALL-070: no cache stores a response, except files of the API page. No client guesses the
/// media type.
#[tokio::test]
async fn responses_are_neither_cached_nor_sniffed() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    for (caller, path, status, cache_control) in [
        (&owner, SELECTIONS, 200, "no-store"),
        (&service().guest(), &*open_path(&selection), 200, "no-store"),
        (&service().guest(), SELECTIONS, 401, "no-store"),
        (&owner, "/nowhere", 404, "no-store"),
        (&owner, "/docs/selections/", 200, "max-age=3600"),
    ] {
        let response = caller.get(path).await;
        assert_eq!(response.status, status, "{path}");
        assert_eq!(response.header("cache-control"), cache_control, "{path}");
        assert_eq!(response.header("x-content-type-options"), "nosniff", "{path}");
    }
}

/// Sends a request as a page of `origin` does.
async fn get_from(caller: &Client, origin: &str) -> Response {
    send(caller.request(Method::GET, SELECTIONS).header("origin", origin)).await
}

/// RULE-ALL-065, RULE-ALL-072: pages of configured origins read every response, refusals included.
#[tokio::test]
async fn pages_of_allowed_origins_read_every_response() {
    let settings = [
        ("CORS_ALLOWED_ORIGINS", "https://example.org,http://localhost:3000"),
        ("ACTOR_REQUESTS_PER_MINUTE", "1"),
    ];
    let service = Running::start::<Service>(&settings);
    let (_, owner) = service.user();
    for (caller, status) in [(&owner, 200), (&owner, 429), (&service.guest(), 401)] {
        let response = get_from(caller, ORIGIN).await;
        assert_eq!((response.status, response.header("access-control-allow-origin")), (status, ORIGIN));
        let exposed = response.header("access-control-expose-headers").to_lowercase();
        for header in ["retry-after", "etag", "deprecation", "sunset"] {
            assert!(exposed.contains(header), "{header}: {exposed}");
        }
        assert_eq!(response.header("access-control-allow-credentials"), "");
        assert!(
            response.header("vary").to_lowercase().contains("origin"),
            "caches store each origin separately"
        );
    }
    assert_eq!(
        get_from(&service.guest(), "https://example.com").await.header("access-control-allow-origin"),
        ""
    );
    let internal =
        service.internal_client(None).request(Method::GET, "/").header("origin", ORIGIN).send().await;
    assert_eq!(
        header(internal.unwrap().headers(), "access-control-allow-origin"),
        "",
        "services have no pages"
    );
}

/// RULE-ALL-072: a preflight returns the methods and headers that a page may send.
#[tokio::test]
async fn preflight_lists_allowed_methods_and_headers() {
    let service = Running::start::<Service>(&[("CORS_ALLOWED_ORIGINS", ORIGIN)]);
    let preflight = async |method: &str, headers: &str| {
        let request = service.guest().request(Method::OPTIONS, SELECTIONS).header("origin", ORIGIN);
        let request = request.header("access-control-request-method", method);
        request.header("access-control-request-headers", headers).send().await.unwrap()
    };
    let allowed =
        preflight("PUT", "authorization,content-type,traceparent,if-none-match,idempotency-key").await;
    assert_eq!(allowed.status(), 200);
    assert_eq!(header(allowed.headers(), "access-control-allow-origin"), ORIGIN);
    assert!(header(allowed.headers(), "access-control-allow-methods").contains("PUT"));
    assert_eq!(header(allowed.headers(), "access-control-max-age"), "3600");
    for (method, headers) in [("TRACE", "authorization"), ("PUT", "x-forwarded-for")] {
        assert_eq!(preflight(method, headers).await.status(), 400, "{method} {headers}");
    }
}

/// RULE-ALL-072: no origin is allowed by default.
#[tokio::test]
async fn pages_of_other_origins_are_refused_by_default() {
    let (_, owner) = service().user();
    let response = get_from(&owner, ORIGIN).await;
    assert_eq!((response.status, response.header("access-control-allow-origin")), (200, ""));
    let preflight = service().guest().request(Method::OPTIONS, SELECTIONS).header("origin", ORIGIN);
    let refused = preflight.header("access-control-request-method", "GET").send().await.unwrap();
    assert_eq!(refused.status(), 405);
}
