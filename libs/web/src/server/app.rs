//! The application behind a listener.

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::http::ConnectionType;
use actix_web::middleware::{Condition, Next, from_fn};
use actix_web::{App, Error, web};
use tokio_util::sync::CancellationToken;
use utoipa::openapi::Paths;
use utoipa_actix_web::AppExt;

use crate::config::Origin;
use crate::limits::admission::{Door, admit};
use crate::limits::caller::TrustedProxies;
use crate::limits::unread::hold_body;
use crate::listener::{Area, Listener};
use crate::observe::{Surroundings, surround};
use crate::openapi::page::Page;
use crate::response::headers::{cors, defaults};
use crate::response::problem::Problem;
use crate::server::known_routes::{KnownRoutes, unmatched};

/// What each thread of a listener builds its application from.
#[derive(Clone)]
pub(super) struct ListenerApp<D> {
    pub(super) listener: Listener,
    pub(super) data: D,
    pub(super) area: web::Data<Area>,
    pub(super) surroundings: web::Data<Surroundings>,
    pub(super) door: web::Data<Door>,
    pub(super) trusted: web::Data<TrustedProxies>,
    pub(super) draining: web::Data<CancellationToken>,
    pub(super) origins: Vec<Origin>,
    pub(super) page: Page,
    pub(super) paths: Paths,
}

impl<D: Fn(&mut web::ServiceConfig)> ListenerApp<D> {
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
        let service = self.area.name;
        App::new()
            // Before the routes: their scope takes every path, and answers 404 to what it does not know.
            .service(web::redirect(format!("/docs/{service}"), format!("/docs/{service}/")))
            .service(self.page.serve(service))
            .into_utoipa_app()
            .configure(self.listener.routes)
            .into_app()
            .configure(self.data)
            .app_data(self.listener.callers)
            .app_data(self.area)
            .app_data(self.surroundings)
            .app_data(self.door)
            .app_data(self.trusted)
            .app_data(web::Data::new(KnownRoutes::of(&self.paths)))
            .app_data(self.draining)
            .app_data(web::PathConfig::default().error_handler(|_, _| Problem::not_found().into()))
            .default_service(web::to(unmatched))
            .wrap(from_fn(surround))
            .wrap(from_fn(admit))
            .wrap(from_fn(hold_body))
            // Outside the door: who is not let in hears why.
            .wrap(Condition::new(!self.origins.is_empty(), cors(&self.origins)))
            .wrap(defaults())
            .wrap(from_fn(end_connection))
    }
}

/// A process that drains ends each connection with an answer: closed while it is idle, it may be closed just when the next
/// request is on its way, which its caller must not repeat unless it may be done twice.
async fn end_connection<B: MessageBody>(
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
