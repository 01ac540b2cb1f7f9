//! The API page of a listener: its OpenAPI document, and Swagger UI to read and try it. All of it comes from
//! this binary; nothing is loaded from elsewhere, and a process has one copy of it, however many read it.

use std::borrow::Cow;
use std::sync::Arc;

use actix_web::dev::HttpServiceFactory;
use actix_web::http::header::{CACHE_CONTROL, ContentType};
use actix_web::middleware::DefaultHeaders;
use actix_web::web::{self, Bytes};
use actix_web::{HttpResponse, Result};
use utoipa::openapi::OpenApi;
use utoipa_swagger_ui::Config;

use crate::limits::byte_budget::response::Slices;
use crate::response::problem::Problem;

/// The browser is told to load from this origin alone, but for the icons that Swagger UI has in its styles.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// What the threads of a listener serve.
#[derive(Clone)]
pub(crate) struct Page {
    config: Arc<Config<'static>>,
    document: Bytes,
}

impl Page {
    /// Where `tried` is false the page can be read, but sends no request.
    ///
    /// # Errors
    /// A document that cannot be written as JSON.
    pub(crate) fn new(api: &OpenApi, tried: bool) -> anyhow::Result<Self> {
        let config = Config::new(["openapi.json"])
            .use_base_layout()
            .default_models_expand_depth(0)
            .display_operation_id(true)
            .display_request_duration(true)
            .filter(true)
            // Else it asks a validator on the internet about the document.
            .validator_url("none")
            .persist_authorization(true)
            .try_it_out_enabled(tried);
        let config = if tried { config } else { config.supported_submit_methods([""; 0]) };
        Ok(Self { config: Arc::new(config), document: Bytes::from(api.to_json()?) })
    }

    /// Serves it below `/docs/{area}/`.
    pub(crate) fn serve(self, area: &str) -> impl HttpServiceFactory + use<> {
        web::scope(&format!("/docs/{area}"))
            .app_data(web::Data::new(self))
            .route("/openapi.json", web::get().to(document))
            .route("/{file:.*}", web::get().to(file))
            .wrap(DefaultHeaders::new().add(("content-security-policy", POLICY)))
    }
}

async fn document(page: web::Data<Page>) -> HttpResponse {
    HttpResponse::Ok().content_type(ContentType::json()).body(Slices::of(page.document.clone()))
}

async fn file(page: web::Data<Page>, name: web::Path<String>) -> Result<HttpResponse, Problem> {
    let file = utoipa_swagger_ui::serve(&name, page.config.clone()).ok().flatten();
    let file = file.ok_or_else(Problem::not_found)?;
    let bytes = match file.bytes {
        Cow::Borrowed(bytes) => Bytes::from_static(bytes),
        // The few lines that configure it.
        Cow::Owned(bytes) => Bytes::from(bytes),
    };
    let mut response = HttpResponse::Ok();
    response.content_type(file.content_type).insert_header((CACHE_CONTROL, "max-age=3600"));
    Ok(response.body(Slices::of(bytes)))
}
