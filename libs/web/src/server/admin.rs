//! The handlers of the admin port.

use actix_web::{HttpResponse, web};
use runtime::{Metrics, Process};

pub(super) async fn ready(process: web::Data<Process>) -> HttpResponse {
    match process.check_readiness().await {
        Ok(()) => HttpResponse::NoContent().finish(),
        Err(missing) => HttpResponse::ServiceUnavailable().body(missing.join("\n")),
    }
}

pub(super) async fn metrics(metrics: web::Data<Metrics>) -> HttpResponse {
    match metrics.encode() {
        Ok(text) => HttpResponse::Ok()
            .content_type("application/openmetrics-text; version=1.0.0; charset=utf-8")
            .body(text),
        Err(error) => {
            tracing::error!(%error, "failed to encode metrics");
            HttpResponse::InternalServerError().finish()
        }
    }
}
