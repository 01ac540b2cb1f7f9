//! The HTTP edge: the routes of the public port.

use ::web::{Callers, Listener, Routes};
use actix_web::middleware::from_fn;
use utoipa_actix_web::scope;

/// What the platform's people do with all deals, and a developer's with their own.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::People,
    tags: &[
        ("Deals", "Deals of all developers, for the platform's people."),
        ("Own deals", "Deals of one's own company."),
        ("Board", "The kanban of a developer's deals."),
        ("Pipeline", "The steps that a developer's deals go through."),
    ],
    routes: public,
};

fn public(routes: &mut Routes<'_>) {
    routes.service(scope::scope("").wrap(from_fn(auth::authenticate)));
}
