//! Use cases that mark and unmark property objects. Both are idempotent.

use ::db::Tx;
use auth::Actor;
use time::OffsetDateTime;

use crate::db;
use crate::domain::PropertyObjectId;
use crate::error::{Error, FAVORITES_LIMIT_EXCEEDED};

/// Marks an object.
///
/// # Errors
/// [`FAVORITES_LIMIT_EXCEEDED`] if the object is not marked yet and the user is at the limit.
pub async fn add_favorite(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    object: PropertyObjectId,
) -> Result<(), Error> {
    let is_new = db::favorite::insert(tx, actor.user_id, object, now).await?;
    if is_new && !db::owner::reserve_favorite(tx, actor.user_id).await? {
        return Err(FAVORITES_LIMIT_EXCEEDED.into());
    }
    Ok(())
}

/// Unmarks an object.
pub async fn remove_favorite(tx: &mut Tx, actor: &Actor, object: PropertyObjectId) -> Result<(), Error> {
    if db::favorite::delete(tx, actor.user_id, object).await? {
        db::owner::release_favorite(tx, actor.user_id).await?;
    }
    Ok(())
}
