//! The HTTP edge: the routes of the public port.

use ::web::{Callers, Listener, Routes};
use actix_web::middleware::from_fn;
use utoipa_actix_web::scope;

/// What members of chats do, and what LiveKit tells.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::People,
    tags: &[
        ("Chats", "Chats, and who is in them."),
        ("Messages", "What is said in a chat."),
        ("Conferences", "Calls in the chats of deals."),
        ("Stream", "What happens, as it happens."),
        ("Webhooks", "What the media server tells."),
    ],
    routes: public,
};

fn public(routes: &mut Routes<'_>) {
    routes.service(scope::scope("").wrap(from_fn(auth::authenticate)));
}
