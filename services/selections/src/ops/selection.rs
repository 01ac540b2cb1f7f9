//! Use cases of the owners of selections.

use ::db::Tx;
use auth::{Actor, UserId};
use messaging::outbox;
use rand::CryptoRng;
use time::OffsetDateTime;

use crate::db;
use crate::domain::{ChangedField, Description, ItemOrder, PublicCode, Selection, SelectionId, Title};
use crate::error::{CODE_UNAVAILABLE, CONFLICT, Error, FAVORITES_EMPTY, LIMIT_EXCEEDED, NOT_FOUND};
use crate::events::{SelectionCreated, SelectionDeleted, SelectionItemAdded, SelectionUpdated};

/// Title and description of a selection.
pub struct Metadata {
    pub title: Title,
    pub description: Option<Description>,
}

/// Creates a selection.
///
/// # Errors
/// - [`LIMIT_EXCEEDED`] if the actor is at the limit of selections.
/// - [`CODE_UNAVAILABLE`] if every generated code is taken.
pub async fn create_selection(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    random: &mut impl CryptoRng,
    metadata: Metadata,
    order: &ItemOrder,
) -> Result<Selection, Error> {
    reserve(tx, actor.user_id).await?;
    let selection = insert(tx, actor, now, random, metadata, order).await?;
    outbox::append(tx, &SelectionCreated::of(&selection)).await?;
    Ok(selection)
}

/// Creates a selection from the current favorites, in the order in which they were marked.
///
/// # Errors
/// - [`FAVORITES_EMPTY`] if the actor has no favorites.
/// - [`LIMIT_EXCEEDED`] if the actor is at the limit of selections.
/// - [`CODE_UNAVAILABLE`] if every generated code is taken.
pub async fn create_selection_from_favorites(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    random: &mut impl CryptoRng,
    metadata: Metadata,
) -> Result<Selection, Error> {
    let favorites = db::favorite::find_all(tx.conn(), actor.user_id).await?;
    if favorites.is_empty() {
        return Err(FAVORITES_EMPTY.into());
    }
    reserve(tx, actor.user_id).await?;
    let order = ItemOrder::parse(favorites.into_iter().map(|id| (id, None)).collect())?;
    let selection = insert(tx, actor, now, random, metadata, &order).await?;
    outbox::append(tx, &SelectionCreated::of(&selection)).await?;
    outbox::append_all(tx, &SelectionItemAdded::of(&selection, &selection.items)).await?;
    Ok(selection)
}

/// Counts one more selection of the owner (INV-SEL-007).
async fn reserve(tx: &mut Tx, owner: UserId) -> Result<(), Error> {
    if db::owner::reserve_selection(tx, owner).await? { Ok(()) } else { Err(LIMIT_EXCEEDED.into()) }
}

/// Inserts a selection. Generates another code if the code is taken (INV-SEL-005).
async fn insert(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    random: &mut impl CryptoRng,
    metadata: Metadata,
    order: &ItemOrder,
) -> Result<Selection, Error> {
    let code = PublicCode::generate(random);
    let mut selection = Selection::new(actor.user_id, code, metadata.title, metadata.description, order, now);
    for _ in 0..PublicCode::MAX_REGENERATIONS {
        if db::selection::insert(tx, &selection).await? {
            return Ok(selection);
        }
        selection.public_code = PublicCode::generate(random);
    }
    if db::selection::insert(tx, &selection).await? { Ok(selection) } else { Err(CODE_UNAVAILABLE.into()) }
}

/// Replaces title and description.
///
/// # Errors
/// - [`NOT_FOUND`] if the actor has no such selection.
/// - [`CONFLICT`] if `version` is outdated, or if another change committed first.
pub async fn update_selection(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: SelectionId,
    version: Option<i64>,
    metadata: Metadata,
) -> Result<Selection, Error> {
    let mut selection = find_own(tx, actor, id).await?;
    let changed_fields = selection.replace_metadata(metadata.title, metadata.description, now);
    if changed_fields.is_empty() {
        return Ok(selection);
    }
    save(tx, &mut selection, version).await?;
    outbox::append(tx, &SelectionUpdated::of(&selection, changed_fields)).await?;
    Ok(selection)
}

/// Replaces the list of items.
///
/// # Errors
/// - [`NOT_FOUND`] if the actor has no such selection.
/// - [`CONFLICT`] if `version` is outdated, or if another change committed first.
pub async fn replace_selection_items(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: SelectionId,
    version: Option<i64>,
    order: &ItemOrder,
) -> Result<Selection, Error> {
    let mut selection = find_own(tx, actor, id).await?;
    let Some(added) = selection.replace_items(order, now) else { return Ok(selection) };
    save(tx, &mut selection, version).await?;
    outbox::append(tx, &SelectionUpdated::of(&selection, vec![ChangedField::Items])).await?;
    outbox::append_all(tx, &SelectionItemAdded::of(&selection, &added)).await?;
    Ok(selection)
}

/// Deletes a selection.
///
/// # Errors
/// - [`NOT_FOUND`] if the actor has no such selection, or if another delete committed first.
/// - [`CONFLICT`] if an edit committed first.
pub async fn delete_selection(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: SelectionId,
) -> Result<(), Error> {
    let mut selection = find_own(tx, actor, id).await?;
    selection.delete(now);
    if let Err(error) = save(tx, &mut selection, None).await {
        // The loser of a concurrent delete returns 404.
        find_own(tx, actor, id).await?;
        return Err(error);
    }
    db::owner::release_selection(tx, actor.user_id).await?;
    outbox::append(tx, &SelectionDeleted::of(&selection)).await?;
    Ok(())
}

/// Returns the actor's selection. A foreign or deleted one counts as missing (INV-SEL-002).
async fn find_own(tx: &mut Tx, actor: &Actor, id: SelectionId) -> Result<Selection, Error> {
    db::selection::find(tx.conn(), id)
        .await?
        .filter(|selection| selection.owner_user_id == actor.user_id && selection.deleted_at.is_none())
        .ok_or_else(|| NOT_FOUND.into())
}

/// Saves the selection if the row still has the version that was read.
///
/// # Errors
/// [`CONFLICT`] if the row has another version, or if the caller's `version` is not the stored one.
async fn save(tx: &mut Tx, selection: &mut Selection, version: Option<i64>) -> Result<(), Error> {
    if version.is_some_and(|version| version != selection.version) {
        return Err(CONFLICT.into());
    }
    db::selection::save(tx, selection).await
}
