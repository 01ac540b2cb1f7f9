//! The document of the whole platform and the page that shows it.

use reqwest::Method;
use reqwest::header::{ACCEPT_ENCODING, IF_NONE_MATCH};
use serde_json::Value;
use testkit::client::send;

use crate::service;

/// RULE-ALL-117: the page consists of files of this origin, and its policy allows nothing else.
#[tokio::test]
async fn platform_page_loads_nothing_from_elsewhere() {
    let guest = service().guest();
    let page = guest.get("/docs").await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.header("content-type").starts_with("text/html"));
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    assert!(!policy.contains("//"), "{policy}");
    assert_eq!(guest.get("/docs/").await.text, page.text);

    let parts = ["src=\"", "href=\""].into_iter().flat_map(|attribute| page.text.split(attribute).skip(1));
    let parts: Vec<_> = parts.filter_map(|rest| rest.split('"').next()).collect();
    let files: Vec<_> = parts.into_iter().filter(|part| part.starts_with('/')).collect();
    assert!(files.len() > 5, "{files:?}");
    for file in files {
        let part = guest.get(file).await;
        assert_eq!(part.status, 200, "{file}");
        for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(file == "/openapi.json" || !part.text.contains(forbidden), "{file} has {forbidden}");
        }
    }
    // The page has no link to another origin, no inline style and no event handler.
    assert!(!page.text.contains("://") && !page.text.contains("style=") && !page.text.contains(" on"));
    assert_eq!(guest.get("/docs/page.rs").await.status, 404);
}

/// RULE-ALL-117: the document is the one of `contracts/`. It is compressed, and a client that has
/// it gets 304.
#[tokio::test]
async fn platform_document_is_the_stored_one() {
    let guest = service().guest();
    let document = guest.get("/openapi.json").await;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contracts/openapi/platform.json");
    assert!(document.status == 200 && document.text == std::fs::read_to_string(path).unwrap());

    let request = |name, value: &str| guest.request(Method::GET, "/openapi.json").header(name, value);
    let compressed = request(ACCEPT_ENCODING, "gzip").send().await.unwrap();
    assert_eq!(compressed.headers()["content-encoding"], "gzip");
    assert!(compressed.bytes().await.unwrap().len() < document.text.len() / 8);
    let repeated = request(IF_NONE_MATCH, document.header("etag")).send().await.unwrap();
    assert_eq!(repeated.status(), 304);
}

/// RULE-ALL-117: the page, its files and the document allow `GET` and `HEAD` alone.
#[tokio::test]
async fn platform_page_and_document_allow_only_get() {
    let guest = service().guest();
    for path in ["/openapi.json", "/docs", "/docs/", "/docs/page.css"] {
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            let refused = send(guest.request(method, path)).await;
            assert_eq!(refused.header("allow"), "GET, HEAD", "{path}");
            refused.expect_problem(405, "METHOD_NOT_ALLOWED");
        }
        let head = guest.request(Method::HEAD, path).send().await.unwrap();
        assert_eq!(head.status(), 200, "{path}");
        assert!(head.bytes().await.unwrap().is_empty(), "{path}");
    }
    assert_eq!(guest.post("/docs/page.rs", Value::Null).await.status, 404);
}
