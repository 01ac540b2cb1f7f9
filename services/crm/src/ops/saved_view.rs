//! Use cases of saved views within a transaction.

use ::db::Tx;
use time::OffsetDateTime;

use crate::db;
use crate::domain::{MAX_SAVED_VIEWS, SavedView, SavedViewId, ViewContent, ViewOwner};
use crate::error::{Error, SAVED_VIEW_LIMIT_REACHED, SAVED_VIEW_NOT_FOUND};

/// Saves a new view.
///
/// # Errors
/// [`SAVED_VIEW_LIMIT_REACHED`] if the owner has [`MAX_SAVED_VIEWS`] views.
pub async fn create(
    tx: &mut Tx,
    owner: ViewOwner,
    content: &ViewContent,
    now: OffsetDateTime,
) -> Result<SavedView, Error> {
    if db::saved_view::lock_and_count(tx, owner).await? >= MAX_SAVED_VIEWS {
        return Err(SAVED_VIEW_LIMIT_REACHED.into());
    }
    Ok(db::saved_view::insert(tx, owner, content, now).await?)
}

/// Replaces name and query of a view.
///
/// # Errors
/// [`SAVED_VIEW_NOT_FOUND`] if the owner has no such view.
pub async fn replace(
    tx: &mut Tx,
    owner: ViewOwner,
    id: SavedViewId,
    content: &ViewContent,
    now: OffsetDateTime,
) -> Result<SavedView, Error> {
    Ok(db::saved_view::update(tx, owner, id, content, now).await?.ok_or(SAVED_VIEW_NOT_FOUND)?)
}

/// Deletes a view.
///
/// # Errors
/// [`SAVED_VIEW_NOT_FOUND`] if the owner has no such view.
pub async fn delete(tx: &mut Tx, owner: ViewOwner, id: SavedViewId) -> Result<(), Error> {
    let is_deleted = db::saved_view::delete(tx, owner, id).await?;
    if is_deleted { Ok(()) } else { Err(SAVED_VIEW_NOT_FOUND.into()) }
}
