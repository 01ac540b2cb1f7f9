//! Routes of the public port.

mod atom;
mod block;
mod feed;
mod log;
mod post;
mod post_view;
mod revision;
mod schedule;

use ::web::{Callers, Listener, OperationExt, Routes};
use actix_web::middleware::from_fn;
use auth::Permitted;
use utoipa_actix_web::scope;
use values::Code;

use crate::domain::CreatePosts;
use crate::error::{
    CONFLICT, CONTENT_LIMIT_EXCEEDED, DRAFTS_LIMIT_EXCEEDED, FORBIDDEN, POST_ARCHIVED,
    POST_INVALID_TRANSITION, POST_NOT_FOUND, POST_PUBLISH_INCOMPLETE, POST_SCHEDULE_MISSED,
    REVISION_NOT_FOUND, SELECTION_SOURCE_DELETED, SELECTION_SOURCE_EMPTY, SELECTIONS_UNAVAILABLE,
    SNAPSHOT_INVALID, TOO_MANY_BLOCKS, UNAUTHORIZED,
};

pub use block::parse_blocks;

/// The port of users and guests.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::Users,
    tags: &[("Posts", "Posts of ordered blocks. Authors write them, and everyone reads published ones.")],
    routes: public,
};

/// Refusals of the operations that change a post, except its deletion and its undeletion.
const CHANGE_REFUSALS: [Code; 4] = [POST_NOT_FOUND, FORBIDDEN, POST_ARCHIVED, CONFLICT];

/// The callers of every operation on one post, except its read.
const EDITORS: &str = "editors of the post: its author with `news.posts.manage-own`, \
                       a manager of its company with `news.posts.create-company`, \
                       and users with `news.posts.manage`";

/// Further refusals of the operations that replace the content.
const EDIT_REFUSALS: [Code; 4] =
    [CONTENT_LIMIT_EXCEEDED, SELECTION_SOURCE_DELETED, SELECTION_SOURCE_EMPTY, SELECTIONS_UNAVAILABLE];

fn public(routes: &mut Routes<'_>) {
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .service(
                feed::list_posts
                    .admits("everyone, also without a token; users with `Mine` or `Editable`")
                    .refuses([UNAUTHORIZED]),
            )
            .service(atom::read_atom_feed.admits("everyone, also without a token"))
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
            .service(
                schedule::schedule_post
                    .admits(EDITORS)
                    .refuses(CHANGE_REFUSALS)
                    .refuses([POST_INVALID_TRANSITION, POST_SCHEDULE_MISSED]),
            )
            .configure(revisions)
            .service(
                block::set_post_blocks
                    .admits(EDITORS)
                    .refuses(CHANGE_REFUSALS)
                    .refuses([block::BODY_TOO_LARGE, TOO_MANY_BLOCKS, SNAPSHOT_INVALID])
                    .refuses(EDIT_REFUSALS),
            ),
    );
}

/// Adds the routes of revisions and of deleted posts.
fn revisions(routes: &mut Routes<'_>) {
    let access_refusals = [POST_NOT_FOUND, FORBIDDEN];
    routes
        .service(revision::list_post_revisions.admits(EDITORS).refuses(access_refusals))
        .service(
            revision::read_post_revision
                .admits(EDITORS)
                .refuses(access_refusals)
                .refuses([REVISION_NOT_FOUND]),
        )
        .service(
            revision::compare_post_revisions
                .admits(EDITORS)
                .refuses(access_refusals)
                .refuses([REVISION_NOT_FOUND]),
        )
        .service(
            revision::restore_post_revision
                .admits(EDITORS)
                .refuses(CHANGE_REFUSALS)
                .refuses(EDIT_REFUSALS)
                .refuses([REVISION_NOT_FOUND, SNAPSHOT_INVALID]),
        )
        .service(revision::undelete_post.admits(EDITORS).refuses(access_refusals).refuses([
            POST_INVALID_TRANSITION,
            DRAFTS_LIMIT_EXCEEDED,
            SELECTIONS_UNAVAILABLE,
            CONFLICT,
        ]));
}
