//! Use cases of the collaborators of a selection.

use ::db::Tx;
use auth::{Actor, UserId};
use time::OffsetDateTime;

use super::selection::is_own;
use crate::db;
use crate::domain::{MAX_COLLABORATORS, MAX_SHARED, MAX_SHARED_BY_OWNER, SelectionId};
use crate::error::{
    COLLABORATOR_LEFT, COLLABORATORS_LIMIT_EXCEEDED, Error, NOT_FOUND, SHARED_BY_OWNER_LIMIT_EXCEEDED,
    SHARED_LIMIT_EXCEEDED,
};

/// Adds a collaborator. Does nothing if the user is the owner, or already a collaborator.
///
/// # Errors
/// - [`NOT_FOUND`] if the actor does not own such a selection.
/// - [`COLLABORATOR_LEFT`] if the user has left the selection.
/// - [`COLLABORATORS_LIMIT_EXCEEDED`] if the selection has the maximum number of collaborators.
/// - [`SHARED_LIMIT_EXCEEDED`] if the maximum number of selections is already shared with the user.
/// - [`SHARED_BY_OWNER_LIMIT_EXCEEDED`] if the actor already shares the maximum number with the
///   user.
pub async fn add_collaborator(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: SelectionId,
    user: UserId,
) -> Result<(), Error> {
    // The lock keeps the limit under concurrent requests.
    db::selection::lock_own(tx, id, actor.user_id).await?.ok_or(NOT_FOUND)?;
    if user == actor.user_id {
        return Ok(());
    }
    if !db::collaborator::insert(tx, id, user, now).await? {
        let is_present = db::collaborator::is_collaborator(tx.conn(), id, user).await?;
        return if is_present { Ok(()) } else { Err(COLLABORATOR_LEFT.into()) };
    }
    if db::collaborator::count(tx.conn(), id).await? > i64::from(MAX_COLLABORATORS) {
        return Err(COLLABORATORS_LIMIT_EXCEEDED.into());
    }
    // Other selections may be shared with the same person at the same time.
    db::owner::lock(tx, user).await?;
    if db::collaborator::count_shared(tx.conn(), user).await? > i64::from(MAX_SHARED) {
        return Err(SHARED_LIMIT_EXCEEDED.into());
    }
    let of_owner = db::collaborator::count_of_owner(tx.conn(), actor.user_id, user).await?;
    if of_owner > i64::from(MAX_SHARED_BY_OWNER) {
        return Err(SHARED_BY_OWNER_LIMIT_EXCEEDED.into());
    }
    Ok(db::selection::set_shared(tx, id).await?)
}

/// Removes a collaborator, if the user is one. Collaborators can remove themselves, after which the
/// owner cannot add them again.
///
/// # Errors
/// [`NOT_FOUND`] if the actor neither owns such a selection nor is the removed collaborator.
pub async fn remove_collaborator(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: SelectionId,
    user: UserId,
) -> Result<(), Error> {
    let is_removing_self =
        user == actor.user_id && db::collaborator::is_collaborator(tx.conn(), id, user).await?;
    let selection = db::selection::find(tx.conn(), id).await?.filter(|found| found.deleted_at.is_none());
    if !selection.is_some_and(|found| is_removing_self || is_own(&found, actor)) {
        return Err(NOT_FOUND.into());
    }
    if is_removing_self {
        return Ok(db::collaborator::leave(tx, id, user, now).await?);
    }
    Ok(db::collaborator::delete(tx, id, user).await?)
}
