//! The HTTP edge: the routes of the public port.

mod block;
mod feed;
mod post;

use ::web::Routes;
use actix_web::middleware::from_fn;
use runtime::Contracts;
use utoipa_actix_web::scope;

use crate::app::NAME;
use crate::events;

/// What people and guests may do.
pub fn public(routes: &mut Routes<'_>) {
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .service(feed::list_posts)
            .service(post::create_post)
            .service(post::get_post)
            .service(post::update_post)
            .service(post::delete_post)
            .service(post::publish_post)
            .service(post::unpublish_post)
            .service(post::archive_post)
            .service(block::set_post_blocks),
    );
}

pub fn contracts() -> Contracts {
    Contracts { openapi: ::web::to_yaml(&::web::describe(NAME, public)), asyncapi: events::asyncapi() }
}
