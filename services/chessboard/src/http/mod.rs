//! The HTTP edge: the routes of the public port.

use ::web::{Callers, Listener, Routes};
use actix_web::middleware::from_fn;
use utoipa_actix_web::scope;

/// What developers' managers and administrators do, and what guests see.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::People,
    tags: &[
        ("Catalog", "What is published, for anybody."),
        ("Profile", "One's own developer."),
        ("Projects", "Projects of one's own developer, their buildings and objects."),
        ("Administration", "All developers, for administrators of the platform."),
    ],
    routes: public,
};

fn public(routes: &mut Routes<'_>) {
    routes.service(scope::scope("").wrap(from_fn(auth::authenticate)));
}
