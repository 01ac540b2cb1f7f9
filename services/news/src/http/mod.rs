//! Routes of the public port.

mod block;
mod feed;
mod log;
mod post;
mod post_view;

use ::web::{Callers, Listener, Refuses, Routes};
use actix_web::middleware::from_fn;
use auth::Permitted;
use utoipa_actix_web::scope;
use values::Code;

use crate::domain::CreatePosts;
use crate::error::{
    CONFLICT, CONTENT_LIMIT_EXCEEDED, DRAFTS_LIMIT_EXCEEDED, FORBIDDEN, POST_ARCHIVED,
    POST_INVALID_TRANSITION, POST_NOT_FOUND, POST_PUBLISH_INCOMPLETE, SELECTION_SOURCE_DELETED,
    SELECTION_SOURCE_EMPTY, SELECTIONS_UNAVAILABLE, SNAPSHOT_INVALID, TOO_MANY_BLOCKS, UNAUTHORIZED,
};

/// The port of users and guests.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::Users,
    tags: &[("Posts", "Posts of ordered blocks. Authors write them, and everyone reads published ones.")],
    routes: public,
};

/// Refusals of every operation that changes a post.
const CHANGE_REFUSALS: [Code; 4] = [POST_NOT_FOUND, FORBIDDEN, POST_ARCHIVED, CONFLICT];

/// The callers of operations on a post that exists.
const EDITORS: &str = "editors of the post: its author with `news.posts.manage-own`, \
                       a manager of its company with `news.posts.create-company`, \
                       and users with `news.posts.manage`";

fn public(routes: &mut Routes<'_>) {
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .service(
                feed::list_posts
                    .admits("everyone, also without a token; users with `Mine`")
                    .refuses([UNAUTHORIZED]),
            )
            .service(
                post::create_post
                    .requires::<Permitted<CreatePosts>>()
                    .refuses([FORBIDDEN, DRAFTS_LIMIT_EXCEEDED]),
            )
            .service(
                post::get_post
                    .admits("everyone if the post is published, otherwise the editors of the post")
                    .refuses([UNAUTHORIZED, POST_NOT_FOUND]),
            )
            .service(log::list_post_log.admits(EDITORS).refuses([POST_NOT_FOUND, FORBIDDEN]))
            .service(post::update_post.admits(EDITORS).refuses(CHANGE_REFUSALS))
            .service(post::delete_post.admits(EDITORS).refuses([POST_NOT_FOUND, FORBIDDEN]))
            .service(
                post::publish_post
                    .admits(EDITORS)
                    .refuses(CHANGE_REFUSALS)
                    .refuses([POST_INVALID_TRANSITION, POST_PUBLISH_INCOMPLETE]),
            )
            .service(
                post::unpublish_post
                    .admits(EDITORS)
                    .refuses(CHANGE_REFUSALS)
                    .refuses([POST_INVALID_TRANSITION]),
            )
            .service(
                post::archive_post
                    .admits(EDITORS)
                    .refuses(CHANGE_REFUSALS)
                    .refuses([POST_INVALID_TRANSITION]),
            )
            .service(block::set_post_blocks.admits(EDITORS).refuses(CHANGE_REFUSALS).refuses([
                TOO_MANY_BLOCKS,
                CONTENT_LIMIT_EXCEEDED,
                SNAPSHOT_INVALID,
                SELECTION_SOURCE_DELETED,
                SELECTION_SOURCE_EMPTY,
                SELECTIONS_UNAVAILABLE,
            ])),
    );
}
