//! The HTTP edge: the routes of the public and of the internal port.

mod favorite;
mod internal;
mod selection;

use ::web::{Callers, Listener, Problem, Refuses, Routes};
use actix_web::http::Method;
use actix_web::middleware::from_fn;
use actix_web::web;
use utoipa_actix_web::scope;

use crate::domain::{ItemsError, SourceError};
use crate::error::Error;

/// What people and guests may do.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::People,
    tags: &[
        ("Selections", "Collections of property objects, for their owners and for whoever has a code."),
        ("Favorites", "Property objects that a person has marked."),
    ],
    routes: public,
};

/// What news and crm may do, on a port of its own.
pub const INTERNAL: Listener = Listener {
    name: "internal",
    callers: Callers::Services,
    tags: &[("Internal", "For other services, on a port that only they reach.")],
    routes: internal,
};

fn public(routes: &mut Routes<'_>) {
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .service(selection::list_selections)
            .service(selection::create_selection_from_favorites.refuses([
                Error::FavoritesEmpty,
                Error::LimitExceeded,
                Error::CodeUnavailable,
            ]))
            .route("/api/v1/selections/from-favorites", web::route().to(selection::refuse_to_open_favorites))
            .service(selection::create_selection.refuses([
                Error::Items(ItemsError::TooMany),
                Error::Items(ItemsError::Duplicate(1)),
                Error::LimitExceeded,
                Error::CodeUnavailable,
            ]))
            .service(
                selection::open_selection
                    .refuses([Error::NotFound, Problem::method_not_allowed(vec![Method::PUT]).into()]),
            )
            .service(selection::update_selection.refuses([Error::NotFound, Error::Conflict]))
            .service(selection::replace_selection_items.refuses([
                Error::NotFound,
                Error::Items(ItemsError::TooMany),
                Error::Items(ItemsError::Duplicate(1)),
                Error::Conflict,
            ]))
            .service(selection::delete_selection.refuses([Error::NotFound, Error::Conflict]))
            .route("/api/v1/selections/{selection}", web::route().to(selection::refuse_method))
            .service(favorite::list_favorites)
            .service(favorite::add_favorite.refuses([Error::FavoritesLimitExceeded]))
            .service(favorite::remove_favorite),
    );
}

fn internal(routes: &mut Routes<'_>) {
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .service(internal::take_snapshot.refuses([
                Error::NotFound,
                Error::Source(SourceError::Deleted),
                Error::Source(SourceError::Empty),
                Error::Conflict,
            ]))
            .service(internal::detach_snapshot.refuses([Error::SnapshotNotFound]))
            .service(internal::get_snapshot.refuses([Error::SnapshotNotFound]))
            .service(internal::get_selection.refuses([Error::NotFound]))
            .service(internal::list_selections_of_owner),
    );
}
