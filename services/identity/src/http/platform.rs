//! The document of the whole platform and the page that shows it, which the base URL serves at
//! `/openapi.json` and `/docs`.
//!
//! Identity serves both, since every deployment has identity.

use std::sync::LazyLock;

use ::web::{Problem, Routes, StaticFile};
use actix_web::http::Method;
use actix_web::http::header::CONTENT_SECURITY_POLICY;
use actix_web::http::header::HeaderValue;
use actix_web::web::{self, Path};
use actix_web::{HttpRequest, HttpResponse};

/// The policy that restricts the page to its own files. The icon is an empty `data:` URL.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

const SCRIPT: &str = "text/javascript; charset=utf-8";

static DOCUMENT: LazyLock<StaticFile> = LazyLock::new(|| {
    let text = include_str!("../../../../contracts/openapi/platform.json");
    StaticFile::new("application/json", text)
});

static PAGE: LazyLock<StaticFile> =
    LazyLock::new(|| StaticFile::new("text/html; charset=utf-8", include_str!("platform/index.html")));

/// The files of the page.
static FILES: LazyLock<[(&str, StaticFile); 5]> = LazyLock::new(|| {
    [
        ("page.css", StaticFile::new("text/css; charset=utf-8", include_str!("platform/page.css"))),
        ("page.js", StaticFile::new(SCRIPT, include_str!("platform/page.js"))),
        ("operation.js", StaticFile::new(SCRIPT, include_str!("platform/operation.js"))),
        ("schema.js", StaticFile::new(SCRIPT, include_str!("platform/schema.js"))),
        ("dom.js", StaticFile::new(SCRIPT, include_str!("platform/dom.js"))),
    ]
});

pub fn routes(routes: &mut Routes<'_>) {
    routes
        .route("/openapi.json", web::get().to(document))
        .route("/docs", web::get().to(page))
        .route("/docs/", web::get().to(page))
        .route("/docs/{file}", web::get().to(file));
    // The contract document does not list these paths, so the common rejection does not know them.
    for path in ["/openapi.json", "/docs", "/docs/"] {
        routes.route(path, web::route().to(reject_method));
    }
    routes.route("/docs/{file}", web::route().to(reject_method_of_file));
}

/// Returns the document. The first request of a process compresses the document. This runs on a
/// blocking thread, so it does not delay other requests.
async fn document(request: HttpRequest) -> Result<HttpResponse, Problem> {
    web::block(|| LazyLock::force(&DOCUMENT)).await.map_err(|error| Problem::internal(&error))?;
    Ok(DOCUMENT.respond(&request))
}

async fn page(request: HttpRequest) -> HttpResponse {
    let mut response = PAGE.respond(&request);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, POLICY);
    response
}

async fn file(request: HttpRequest, name: Path<String>) -> Result<HttpResponse, Problem> {
    Ok(find_file(&name)?.respond(&request))
}

fn find_file(name: &str) -> Result<&'static StaticFile, Problem> {
    let file = FILES.iter().find(|(file, _)| *file == name);
    file.map(|(_, file)| file).ok_or_else(Problem::not_found)
}

async fn reject_method() -> Result<HttpResponse, Problem> {
    Err(Problem::method_not_allowed(vec![Method::GET]))
}

async fn reject_method_of_file(name: Path<String>) -> Result<HttpResponse, Problem> {
    find_file(&name)?;
    reject_method().await
}
