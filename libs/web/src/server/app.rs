//! The application of a listener: its routes, and the middlewares around them.

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::http::ConnectionType;
use actix_web::middleware::{Condition, Next, from_fn};
use actix_web::{App, Error, web};
use tokio_util::sync::CancellationToken;
use utoipa::openapi::Paths;
use utoipa_actix_web::AppExt;

use crate::config::Origin;
use crate::limits::admission::{ListenerAdmission, admit};
use crate::limits::caller::TrustedProxies;
use crate::limits::unread::hold_request_body;
use crate::listener::{Listener, ServiceInfo};
use crate::observe::{ListenerContext, observe};
use crate::openapi::page::ApiPage;
use crate::response::headers::{cors, default_headers};
use crate::response::problem::Problem;
use crate::server::exchange::follow_exchange;
use crate::server::known_routes::{KnownRoutes, reject_unmatched};

/// The parts from which each thread of a listener builds its application.
#[derive(Clone)]
pub(super) struct ListenerApp<D> {
    pub(super) listener: Listener,
    pub(super) configure_data: D,
    pub(super) service: web::Data<ServiceInfo>,
    pub(super) context: web::Data<ListenerContext>,
    pub(super) admission: web::Data<ListenerAdmission>,
    pub(super) trusted_proxies: web::Data<TrustedProxies>,
    pub(super) draining: web::Data<CancellationToken>,
    pub(super) origins: Vec<Origin>,
    pub(super) page: ApiPage,
    pub(super) paths: Paths,
}

impl<D: Fn(&mut web::ServiceConfig)> ListenerApp<D> {
    /// Builds the application. The last middleware sees a request first.
    pub(super) fn build(
        self,
    ) -> App<
        impl ServiceFactory<
            ServiceRequest,
            Config = (),
            Response = ServiceResponse<impl MessageBody>,
            Error = Error,
            InitError = (),
        >,
    > {
        let name = self.service.name;
        App::new()
            // The page precedes the routes, because their scope matches every path and returns 404
            // for unknown ones.
            .service(web::redirect(format!("/docs/{name}"), format!("/docs/{name}/")))
            .service(self.page.routes(name))
            .into_utoipa_app()
            .configure(self.listener.routes)
            .into_app()
            .configure(self.configure_data)
            .app_data(self.listener.callers)
            .app_data(self.service)
            .app_data(self.context)
            .app_data(self.admission)
            .app_data(self.trusted_proxies)
            .app_data(web::Data::new(KnownRoutes::from_paths(&self.paths)))
            .app_data(self.draining)
            .app_data(web::PathConfig::default().error_handler(|_, _| Problem::not_found().into()))
            .default_service(web::to(reject_unmatched))
            .wrap(from_fn(observe))
            .wrap(from_fn(admit))
            .wrap(from_fn(hold_request_body))
            // CORS is outside admission, so that a browser can read a rejection, too.
            .wrap(Condition::new(!self.origins.is_empty(), cors(&self.origins)))
            .wrap(default_headers())
            .wrap(from_fn(close_connection_while_draining))
            .wrap(from_fn(follow_exchange))
    }
}

/// Closes the connection of each response while the process drains.
///
/// Otherwise an idle connection could close while its next request is in transit.
/// The caller must not retry such a request unless it is idempotent.
async fn close_connection_while_draining<B: MessageBody>(
    draining: web::Data<CancellationToken>,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let mut response = next.call(request).await?;
    if draining.is_cancelled() {
        response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
    }
    Ok(response)
}
