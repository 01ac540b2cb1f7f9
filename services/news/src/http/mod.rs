//! The HTTP edge: the routes of the public port.

mod block;
mod feed;
mod post;

use ::web::{Callers, Listener, Refuses, Routes};
use actix_web::middleware::from_fn;
use utoipa_actix_web::scope;
use values::Code;

use crate::error::{
    CONFLICT, FORBIDDEN, POST_ARCHIVED, POST_INVALID_TRANSITION, POST_NOT_FOUND, POST_PUBLISH_INCOMPLETE,
    SELECTION_SOURCE_DELETED, SELECTION_SOURCE_EMPTY, SELECTIONS_UNAVAILABLE, SNAPSHOT_INVALID,
    TOO_MANY_BLOCKS, UNAUTHORIZED,
};

/// What people and guests may do.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::People,
    tags: &[("Posts", "Posts of ordered blocks, for their authors and their readers.")],
    routes: public,
};

/// What whoever changes a post may meet, beside what the change itself asks for.
const CHANGING: [Code; 4] = [POST_NOT_FOUND, FORBIDDEN, POST_ARCHIVED, CONFLICT];

fn public(routes: &mut Routes<'_>) {
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .service(feed::list_posts.refuses([UNAUTHORIZED]))
            .service(post::create_post.refuses([FORBIDDEN]))
            .service(post::get_post.refuses([POST_NOT_FOUND]))
            .service(post::update_post.refuses(CHANGING))
            .service(post::delete_post.refuses([POST_NOT_FOUND, FORBIDDEN]))
            .service(
                post::publish_post
                    .refuses(CHANGING)
                    .refuses([POST_INVALID_TRANSITION, POST_PUBLISH_INCOMPLETE]),
            )
            .service(post::unpublish_post.refuses(CHANGING).refuses([POST_INVALID_TRANSITION]))
            .service(post::archive_post.refuses(CHANGING).refuses([POST_INVALID_TRANSITION]))
            .service(block::set_post_blocks.refuses(CHANGING).refuses([
                TOO_MANY_BLOCKS,
                SNAPSHOT_INVALID,
                SELECTION_SOURCE_DELETED,
                SELECTION_SOURCE_EMPTY,
                SELECTIONS_UNAVAILABLE,
            ])),
    );
}
