//! The API page of a listener: its OpenAPI document, and Swagger UI to read and try it.
//!
//! All files are compiled into the binary. A process holds one copy of them for all readers.

use std::borrow::Cow;
use std::sync::Arc;

use actix_web::dev::HttpServiceFactory;
use actix_web::http::header::{CACHE_CONTROL, ContentType};
use actix_web::middleware::DefaultHeaders;
use actix_web::web::{self, Bytes};
use actix_web::{HttpResponse, Result};
use utoipa::openapi::OpenApi;
use utoipa_swagger_ui::Config;

use crate::limits::byte_budget::response::ChunkedBytes;
use crate::response::problem::Problem;

/// The policy that restricts the page to its own origin, and to icons inside Swagger UI's styles.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; img-src 'self' data:; base-uri 'none'; \
                                       form-action 'none'; frame-ancestors 'none'";

/// The API page, shared by the threads of a listener.
#[derive(Clone)]
pub(crate) struct ApiPage {
    config: Arc<Config<'static>>,
    document: Bytes,
}

impl ApiPage {
    /// Creates the page of `api`. Without `can_send_requests` it is read-only.
    ///
    /// # Errors
    /// A document that cannot be serialized.
    pub(crate) fn new(api: &OpenApi, can_send_requests: bool) -> anyhow::Result<Self> {
        let config = Config::new(["openapi.json"])
            .use_base_layout()
            .default_models_expand_depth(0)
            .display_operation_id(true)
            .display_request_duration(true)
            .filter(true)
            // Swagger UI sends the document to a public validator by default.
            .validator_url("none")
            .persist_authorization(true)
            .try_it_out_enabled(can_send_requests);
        let config = if can_send_requests { config } else { config.supported_submit_methods([""; 0]) };
        Ok(Self { config: Arc::new(config), document: Bytes::from(api.to_json()?) })
    }

    /// Returns the routes of the page, below `/docs/{service}/`.
    pub(crate) fn routes(self, service: &str) -> impl HttpServiceFactory + use<> {
        web::scope(&format!("/docs/{service}"))
            .app_data(web::Data::new(self))
            .route("/openapi.json", web::get().to(document))
            .route("/{file:.*}", web::get().to(file))
            .wrap(DefaultHeaders::new().add(("content-security-policy", CONTENT_SECURITY_POLICY)))
    }
}

async fn document(page: web::Data<ApiPage>) -> HttpResponse {
    HttpResponse::Ok().content_type(ContentType::json()).body(ChunkedBytes::uncounted(page.document.clone()))
}

async fn file(page: web::Data<ApiPage>, name: web::Path<String>) -> Result<HttpResponse, Problem> {
    let file = utoipa_swagger_ui::serve(&name, page.config.clone()).ok().flatten();
    let file = file.ok_or_else(Problem::not_found)?;
    let bytes = match file.bytes {
        Cow::Borrowed(bytes) => Bytes::from_static(bytes),
        // The generated configuration, a few lines.
        Cow::Owned(bytes) => Bytes::from(bytes),
    };
    let mut response = HttpResponse::Ok();
    response.content_type(file.content_type).insert_header((CACHE_CONTROL, "max-age=3600"));
    Ok(response.body(ChunkedBytes::uncounted(bytes)))
}
