//! Use cases of publishing and unpublishing at a time.

use ::db::Tx;
use auth::Actor;
use messaging::outbox;
use time::OffsetDateTime;
use uuid::Uuid;
use web::Problem;

use super::post::{find_for_edit, schedule_job};
use crate::db;
use crate::domain::{Post, PostId, ScheduledMove};
use crate::error::{CONFLICT, Error, FORBIDDEN, POST_SCHEDULE_MISSED};
use crate::events::{PostPublished, PostUnpublished};

/// The times of a request.
pub struct NewSchedule {
    pub publish_at: Option<OffsetDateTime>,
    pub unpublish_at: Option<OffsetDateTime>,
    /// The version that the caller read.
    pub version: Option<i64>,
}

/// Replaces the times at which a post is published and unpublished.
///
/// # Errors
/// In this order: `POST_NOT_FOUND`, [`FORBIDDEN`], the errors of [`Post::set_schedule`],
/// [`CONFLICT`].
pub async fn set_schedule(tx: &mut Tx, actor: &Actor, id: PostId, new: NewSchedule) -> Result<Post, Error> {
    let mut post = find_for_edit(tx, actor, id).await?;
    post.check_editable()?;
    let stored = (post.schedule.publish_at, post.schedule.unpublish_at);
    // The moves of a schedule depend on the access of the user who has set it.
    let is_of_actor = post.schedule.set_by.is_none_or(|(by, _)| by == actor.user_id);
    if stored == (new.publish_at, new.unpublish_at) && is_of_actor && post.schedule_failure.is_none() {
        return Ok(post);
    }
    // The times are compared by the clock of the database, as the job compares them.
    let now = db::schedule::now(tx).await?;
    let issued_at =
        OffsetDateTime::from_unix_timestamp(actor.issued_at()).map_err(|error| Problem::internal(&error))?;
    post.set_schedule(new.publish_at, new.unpublish_at, (actor.user_id, issued_at), now)?;
    if new.version.is_some_and(|version| version != post.version) {
        return Err(CONFLICT.into());
    }
    post.touch(actor.user_id, now);
    db::post::save(tx, &mut post).await?;
    schedule_job(tx, &post).await?;
    Ok(post)
}

/// Makes the next move of a post if the time of the move has passed by the clock of the database.
/// Returns the time of the move that is then next.
///
/// A move that is not possible clears the schedule. The post keeps its status and stores the
/// failure.
///
/// # Errors
/// [`Error::Database`]
pub async fn make_due_move(tx: &mut Tx, id: PostId) -> Result<Option<OffsetDateTime>, Error> {
    let Some(mut post) = db::post::lock(tx, id).await? else { return Ok(None) };
    let now = db::schedule::now(tx).await?;
    let (Some(due), Some((by, token_issued_at))) = (post.schedule.due(now), post.schedule.set_by) else {
        return Ok(post.schedule.next_at());
    };
    let subjects = [Some(Uuid::from(by)), post.author_company_id.map(Uuid::from)];
    // An unpublication is made in any case, so that no revocation keeps content public.
    let is_revoked = due == ScheduledMove::Publish
        && db::schedule::is_access_revoked(tx, subjects, token_issued_at).await?;
    let is_missed = due == ScheduledMove::Publish && post.schedule.unpublish_at.is_some_and(|at| at <= now);
    let mut first_publication = None;
    let result = match due {
        // A user who lost access since the token was issued could not publish now.
        _ if is_revoked => Err(FORBIDDEN),
        ScheduledMove::Publish if is_missed => Err(POST_SCHEDULE_MISSED),
        ScheduledMove::Publish => post.publish(now).map(|first| first_publication = Some(first)),
        ScheduledMove::Unpublish => post.unpublish(),
    };
    if let Err(code) = result {
        post.fail_schedule(due, code, now);
    }
    post.touch(by, now);
    db::post::save(tx, &mut post).await?;
    match (result, first_publication) {
        (Err(code), _) => tracing::info!(post = %post.id, code = code.id, "scheduled move of a post failed"),
        (Ok(()), Some(first_publication)) => {
            db::feed::upsert(tx, &post).await?;
            outbox::append(tx, &PostPublished::of(&post, first_publication)).await?;
        }
        (Ok(()), None) => {
            db::feed::delete(tx, id).await?;
            outbox::append(tx, &PostUnpublished::of(&post)).await?;
        }
    }
    Ok(post.schedule.next_at())
}
