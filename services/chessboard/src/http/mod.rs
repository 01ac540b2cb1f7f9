//! The HTTP edge: the routes of the public port.

mod admin_developer;
mod developer;

use ::web::{Callers, Listener, Refuses, Routes};
use actix_web::middleware::from_fn;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_actix_web::scope;
use values::Code;

use crate::error::{
    CONFLICT, DEVELOPER_ALREADY_EXISTS, DEVELOPER_COMPANY_NOT_ACTIVE, DEVELOPER_COMPANY_NOT_FOUND,
    DEVELOPER_FIELD_SYNC_MANAGED, DEVELOPER_HAS_LIVE_PROJECTS, DEVELOPER_INVALID_TRANSITION,
    DEVELOPER_NOT_FOUND, DEVELOPER_PUBLISH_INCOMPLETE, DEVELOPER_TALENT_DUPLICATE, FORBIDDEN,
};

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

/// What the body of a move may say.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Seen {
    /// The version that the caller has seen; another one is a conflict.
    pub version: Option<i64>,
}

/// What whoever reads a developer may meet.
const READING: [Code; 2] = [FORBIDDEN, DEVELOPER_NOT_FOUND];

/// What whoever changes a developer may meet.
const CHANGING: [Code; 3] = [FORBIDDEN, DEVELOPER_NOT_FOUND, CONFLICT];

fn public(routes: &mut Routes<'_>) {
    let publishing =
        [DEVELOPER_INVALID_TRANSITION, DEVELOPER_COMPANY_NOT_ACTIVE, DEVELOPER_PUBLISH_INCOMPLETE];
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .service(developer::get_my_developer.refuses(READING))
            .service(developer::update_my_developer.refuses(CHANGING).refuses([DEVELOPER_FIELD_SYNC_MANAGED]))
            .service(developer::publish_my_developer.refuses(CHANGING).refuses(publishing))
            .service(developer::hide_my_developer.refuses(CHANGING).refuses([DEVELOPER_INVALID_TRANSITION]))
            .service(
                developer::withdraw_my_developer.refuses(CHANGING).refuses([DEVELOPER_INVALID_TRANSITION]),
            )
            .service(developer::list_my_developer_events.refuses(READING))
            .service(admin_developer::list_developers.refuses([FORBIDDEN]))
            .service(admin_developer::create_developer.refuses([
                FORBIDDEN,
                DEVELOPER_COMPANY_NOT_FOUND,
                DEVELOPER_ALREADY_EXISTS,
                DEVELOPER_TALENT_DUPLICATE,
                CONFLICT,
            ]))
            .service(admin_developer::get_developer.refuses(READING))
            .service(
                admin_developer::update_developer.refuses(CHANGING).refuses([DEVELOPER_FIELD_SYNC_MANAGED]),
            )
            .service(
                admin_developer::delete_developer.refuses(CHANGING).refuses([DEVELOPER_HAS_LIVE_PROJECTS]),
            )
            .service(admin_developer::publish_developer.refuses(CHANGING).refuses(publishing))
            .service(
                admin_developer::hide_developer.refuses(CHANGING).refuses([DEVELOPER_INVALID_TRANSITION]),
            )
            .service(
                admin_developer::withdraw_developer.refuses(CHANGING).refuses([DEVELOPER_INVALID_TRANSITION]),
            )
            .service(admin_developer::release_developer.refuses(CHANGING))
            .service(admin_developer::list_developer_events.refuses(READING)),
    );
}
