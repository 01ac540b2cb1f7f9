//! The HTTP edge: the routes of the public port.

mod block;
mod feed;
mod post;

use ::web::{Callers, Listener, Problem, Refuses, Routes};
use actix_web::middleware::from_fn;
use utoipa_actix_web::scope;
use uuid::Uuid;

use crate::domain::{PostError, PostStatus, SnapshotId};
use crate::error::Error;

/// What people and guests may do.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::People,
    tags: &[("Posts", "Posts of ordered blocks, for their authors and their readers.")],
    routes: public,
};

/// Where a post comes from does not show in what is answered.
const MOVED: PostError = PostError::InvalidTransition { from: PostStatus::Draft, to: PostStatus::Draft };

/// What whoever changes a post may meet, beside what the change itself asks for.
fn changing<const N: usize>(own: [PostError; N]) -> impl Iterator<Item = Error> {
    [Error::PostNotFound, Error::Forbidden, Error::Conflict].into_iter().chain(own.map(Error::from))
}

fn public(routes: &mut Routes<'_>) {
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .service(feed::list_posts.refuses([Problem::unauthorized()]))
            .service(post::create_post.refuses([Error::Forbidden]))
            .service(post::get_post.refuses([Error::PostNotFound]))
            .service(post::update_post.refuses(changing([PostError::Archived])))
            .service(post::delete_post.refuses([Error::PostNotFound, Error::Forbidden]))
            .service(post::publish_post.refuses(changing([
                PostError::Archived,
                MOVED,
                PostError::PublishIncomplete,
            ])))
            .service(post::unpublish_post.refuses(changing([PostError::Archived, MOVED])))
            .service(post::archive_post.refuses(changing([PostError::Archived, MOVED])))
            .service(block::set_post_blocks.refuses(changing([PostError::Archived])).refuses([
                Error::TooManyBlocks,
                Error::SnapshotInvalid(SnapshotId::from(Uuid::nil())),
                Error::SelectionSourceDeleted,
                Error::SelectionSourceEmpty,
                Error::SelectionsUnavailable(String::new()),
            ])),
    );
}
