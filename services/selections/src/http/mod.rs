//! Routes of the public and of the internal port.

mod collaborator;
mod details;
mod favorite;
mod internal;
mod item;
mod selection;

use ::web::{Callers, Listener, METHOD_NOT_ALLOWED, OperationExt, Routes};
use actix_web::middleware::from_fn;
use actix_web::web;
use utoipa_actix_web::scope;

use crate::error::{
    ADDED_ITEMS_LIMIT_EXCEEDED, CODE_UNAVAILABLE, COLLABORATOR_LEFT, COLLABORATORS_LIMIT_EXCEEDED, CONFLICT,
    DUPLICATE_ITEM, FAVORITES_EMPTY, FAVORITES_LIMIT_EXCEEDED, ITEMS_LIMIT_EXCEEDED, LIMIT_EXCEEDED,
    NOT_FOUND, SHARED_BY_OWNER_LIMIT_EXCEEDED, SHARED_LIMIT_EXCEEDED, SNAPSHOT_NOT_FOUND, SOURCE_DELETED,
    SOURCE_EMPTY,
};

/// The port of users and guests.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::Users,
    tags: &[
        ("Selections", "Collections of property objects. Owners manage them, and a public code opens them."),
        ("Collaborators", "People whom an owner lets edit a selection."),
        ("Favorites", "Property objects that a user marked."),
    ],
    routes: public,
};

/// The port of news and crm.
pub const INTERNAL: Listener = Listener {
    name: "internal",
    callers: Callers::Services,
    tags: &[("Internal", "Operations for other services, on the internal port.")],
    routes: internal,
};

// Descriptions of callers that several operations share.
const OWNER: &str = "the owner of the selection";
const EDITORS: &str = "the owner and the collaborators of the selection";
const FAVORITES: &str = "every user, for own favorites";

fn public(routes: &mut Routes<'_>) {
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .configure(collaborators)
            .configure(selections)
            .configure(favorites),
    );
}

fn selections(routes: &mut Routes<'_>) {
    routes
        .service(selection::list_selections.admits("every user, for own selections"))
        .service(selection::create_selection_from_favorites.admits("every user, for oneself").refuses([
            FAVORITES_EMPTY,
            LIMIT_EXCEEDED,
            ADDED_ITEMS_LIMIT_EXCEEDED,
            CODE_UNAVAILABLE,
        ]))
        .route("/api/v1/selections/from-favorites", web::route().to(selection::refuse_method_of_favorites))
        .service(selection::create_selection.admits("every user, for oneself").refuses([
            ITEMS_LIMIT_EXCEEDED,
            DUPLICATE_ITEM,
            LIMIT_EXCEEDED,
            ADDED_ITEMS_LIMIT_EXCEEDED,
            CODE_UNAVAILABLE,
        ]))
        .service(
            selection::open_selection
                .admits("everyone who has the public code, also without a token")
                .refuses([NOT_FOUND, METHOD_NOT_ALLOWED]),
        )
        .service(selection::update_selection.admits(EDITORS).refuses([NOT_FOUND, CONFLICT]))
        .service(selection::replace_selection_items.admits(EDITORS).refuses([
            NOT_FOUND,
            ITEMS_LIMIT_EXCEEDED,
            ADDED_ITEMS_LIMIT_EXCEEDED,
            DUPLICATE_ITEM,
            CONFLICT,
        ]))
        .service(selection::delete_selection.admits(OWNER).refuses([NOT_FOUND, CONFLICT]))
        .service(selection::duplicate_selection.admits(EDITORS).refuses([
            NOT_FOUND,
            LIMIT_EXCEEDED,
            ADDED_ITEMS_LIMIT_EXCEEDED,
            CODE_UNAVAILABLE,
        ]))
        .service(item::add_selection_item.admits(EDITORS).refuses([
            NOT_FOUND,
            ITEMS_LIMIT_EXCEEDED,
            ADDED_ITEMS_LIMIT_EXCEEDED,
        ]))
        .service(item::remove_selection_item.admits(EDITORS).refuses([NOT_FOUND]))
        .service(details::get_selection_details.admits(EDITORS).refuses([NOT_FOUND]))
        .service(details::list_selection_changes.admits(EDITORS).refuses([NOT_FOUND]))
        .service(details::replace_selection_link.admits(OWNER).refuses([NOT_FOUND, CONFLICT]))
        .route("/api/v1/selections/{selection}", web::route().to(selection::refuse_method));
}

fn collaborators(routes: &mut Routes<'_>) {
    routes
        .service(collaborator::list_shared_selections.admits("every user, for selections that others share"))
        .service(collaborator::list_collaborators.admits(OWNER).refuses([NOT_FOUND]))
        .service(collaborator::add_collaborator.admits(OWNER).refuses([
            NOT_FOUND,
            COLLABORATOR_LEFT,
            COLLABORATORS_LIMIT_EXCEEDED,
            SHARED_LIMIT_EXCEEDED,
            SHARED_BY_OWNER_LIMIT_EXCEEDED,
        ]))
        .service(
            collaborator::remove_collaborator
                .admits("the owner of the selection, or the collaborator")
                .refuses([NOT_FOUND]),
        );
}

fn favorites(routes: &mut Routes<'_>) {
    routes
        .service(favorite::list_favorites.admits(FAVORITES))
        .service(favorite::add_favorite.admits(FAVORITES).refuses([FAVORITES_LIMIT_EXCEEDED]))
        .service(favorite::remove_favorite.admits(FAVORITES));
}

fn internal(routes: &mut Routes<'_>) {
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .service(internal::take_snapshot.refuses([NOT_FOUND, SOURCE_DELETED, SOURCE_EMPTY, CONFLICT]))
            .service(internal::detach_snapshot.refuses([SNAPSHOT_NOT_FOUND]))
            .service(internal::get_snapshot.refuses([SNAPSHOT_NOT_FOUND]))
            .service(internal::get_selection.refuses([NOT_FOUND]))
            .service(internal::list_selections_of_owner),
    );
}
