//! The HTTP edge: the routes of the public and of the internal port.

mod favorite;
mod internal;
mod selection;

use ::web::Routes;
use actix_web::middleware::from_fn;
use actix_web::web;
use runtime::Contracts;
use utoipa_actix_web::scope;

use crate::app::NAME;
use crate::events;

/// What people and guests may do.
pub fn public(routes: &mut Routes<'_>) {
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .service(selection::list_selections)
            .service(selection::create_selection_from_favorites)
            .route("/api/v1/selections/from-favorites", web::route().to(selection::refuse_to_open_favorites))
            .service(selection::create_selection)
            .service(selection::open_selection)
            .service(selection::update_selection)
            .service(selection::replace_selection_items)
            .service(selection::delete_selection)
            .route("/api/v1/selections/{selection}", web::route().to(selection::refuse_method))
            .service(favorite::list_favorites)
            .service(favorite::add_favorite)
            .service(favorite::remove_favorite),
    );
}

/// What news and crm may do, on a port of its own.
pub fn internal(routes: &mut Routes<'_>) {
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .service(internal::take_snapshot)
            .service(internal::detach_snapshot)
            .service(internal::get_snapshot)
            .service(internal::get_selection)
            .service(internal::list_selections_of_owner),
    );
}

pub fn contracts() -> Contracts {
    let api = ::web::describe(NAME, |routes| {
        public(routes);
        internal(routes);
    });
    Contracts { openapi: ::web::to_yaml(&api), asyncapi: events::asyncapi() }
}
