//! The API page of a listener: its OpenAPI document, and Swagger UI to read and try it. All of it comes from
//! this binary; nothing is loaded from elsewhere.

use actix_web::dev::HttpServiceFactory;
use actix_web::middleware::DefaultHeaders;
use actix_web::{HttpResponse, web};
use utoipa::openapi::OpenApi;
use utoipa_swagger_ui::Config;

use crate::Problem;

/// The browser is told to load from this origin alone, but for the icons that Swagger UI has in its styles.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Serves below `/docs/{area}/`. Where `tried` is false the page can be read, but sends no request.
pub(crate) fn serve(area: &str, api: OpenApi, tried: bool) -> impl HttpServiceFactory + use<> {
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
    web::scope(&format!("/docs/{area}"))
        .app_data(web::Data::new(config))
        .app_data(web::Data::new(api))
        .route("/openapi.json", web::get().to(document))
        .route("/{file:.*}", web::get().to(file))
        .wrap(DefaultHeaders::new().add(("content-security-policy", POLICY)))
}

async fn document(api: web::Data<OpenApi>) -> HttpResponse {
    HttpResponse::Ok().json(api)
}

async fn file(config: web::Data<Config<'static>>, name: web::Path<String>) -> Result<HttpResponse, Problem> {
    let file = utoipa_swagger_ui::serve(&name, config.into_inner()).ok().flatten();
    let file = file.ok_or_else(Problem::not_found)?;
    Ok(HttpResponse::Ok().content_type(file.content_type).body(file.bytes.into_owned()))
}
