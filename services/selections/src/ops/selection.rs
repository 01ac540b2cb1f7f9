//! What owners do with their selections.

use ::db::Tx;
use auth::{Actor, UserId};
use messaging::outbox;
use rand::CryptoRng;
use time::OffsetDateTime;

use crate::db;
use crate::domain::{Description, ItemOrder, PublicCode, Selection, SelectionId, Title};
use crate::error::{CODE_UNAVAILABLE, CONFLICT, Error, FAVORITES_EMPTY, LIMIT_EXCEEDED, NOT_FOUND};
use crate::events::{SelectionCreated, SelectionDeleted, SelectionItemAdded, SelectionUpdated};

/// What a new selection is made of.
pub struct NewSelection {
    pub title: Title,
    pub description: Option<Description>,
}

/// # Errors
/// [`LIMIT_EXCEEDED`], [`CODE_UNAVAILABLE`]
pub async fn create_selection(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    random: &mut impl CryptoRng,
    new: NewSelection,
    order: &ItemOrder,
) -> Result<Selection, Error> {
    take_place(tx, actor.user_id).await?;
    let selection = insert(tx, actor, now, random, new, order).await?;
    outbox::append(tx, &SelectionCreated::of(&selection)).await?;
    Ok(selection)
}

/// An independent copy of the favorites as they are now, in the order in which they were marked.
///
/// # Errors
/// [`FAVORITES_EMPTY`], [`LIMIT_EXCEEDED`], [`CODE_UNAVAILABLE`]
pub async fn create_selection_from_favorites(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    random: &mut impl CryptoRng,
    new: NewSelection,
) -> Result<Selection, Error> {
    let favorites = db::favorite::all(tx.conn(), actor.user_id).await?;
    if favorites.is_empty() {
        return Err(FAVORITES_EMPTY.into());
    }
    take_place(tx, actor.user_id).await?;
    let order = ItemOrder::parse(favorites.into_iter().map(|id| (id, None)).collect())?;
    let selection = insert(tx, actor, now, random, new, &order).await?;
    outbox::append(tx, &SelectionCreated::of(&selection)).await?;
    outbox::append_all(tx, &SelectionItemAdded::of(&selection, &selection.items)).await?;
    Ok(selection)
}

/// INV-SEL-007
async fn take_place(tx: &mut Tx, owner: UserId) -> Result<(), Error> {
    if db::owner::take_selection(tx, owner).await? { Ok(()) } else { Err(LIMIT_EXCEEDED.into()) }
}

/// INV-SEL-005: a code that is taken is made anew, at most three times.
async fn insert(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    random: &mut impl CryptoRng,
    new: NewSelection,
    order: &ItemOrder,
) -> Result<Selection, Error> {
    let code = PublicCode::generate(random);
    let mut selection = Selection::new(actor.user_id, code, new.title, new.description, order, now);
    for _ in 0..PublicCode::MAX_REGENERATIONS {
        if db::selection::insert(tx, &selection).await? {
            return Ok(selection);
        }
        selection.public_code = PublicCode::generate(random);
    }
    if db::selection::insert(tx, &selection).await? { Ok(selection) } else { Err(CODE_UNAVAILABLE.into()) }
}

/// # Errors
/// [`NOT_FOUND`], [`CONFLICT`]
pub async fn update_selection(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: SelectionId,
    version: Option<i64>,
    new: NewSelection,
) -> Result<Selection, Error> {
    let mut selection = find_own(tx, actor, id).await?;
    let changed_fields = selection.describe(new.title, new.description, now);
    if changed_fields.is_empty() {
        return Ok(selection);
    }
    save(tx, &mut selection, version).await?;
    outbox::append(tx, &SelectionUpdated::of(&selection, changed_fields)).await?;
    Ok(selection)
}

/// # Errors
/// [`NOT_FOUND`], [`CONFLICT`]
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
    outbox::append(tx, &SelectionUpdated::of(&selection, vec![crate::domain::ChangedField::Items])).await?;
    outbox::append_all(tx, &SelectionItemAdded::of(&selection, &added)).await?;
    Ok(selection)
}

/// # Errors
/// [`NOT_FOUND`], [`CONFLICT`]
pub async fn delete_selection(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: SelectionId,
) -> Result<(), Error> {
    let mut selection = find_own(tx, actor, id).await?;
    selection.delete(now);
    if let Err(error) = save(tx, &mut selection, None).await {
        // Of deletions that race, the second finds nothing any more.
        find_own(tx, actor, id).await?;
        return Err(error);
    }
    db::owner::give_back_selection(tx, actor.user_id).await?;
    outbox::append(tx, &SelectionDeleted::of(&selection, now)).await?;
    Ok(())
}

/// INV-SEL-002: another's, a missing and a deleted selection are the same to the caller.
async fn find_own(tx: &mut Tx, actor: &Actor, id: SelectionId) -> Result<Selection, Error> {
    db::selection::find(tx.conn(), id)
        .await?
        .filter(|selection| selection.owner_user_id == actor.user_id && selection.deleted_at.is_none())
        .ok_or_else(|| NOT_FOUND.into())
}

/// Compare and swap: on the version that was read, and on the one that the caller has seen, if given.
async fn save(tx: &mut Tx, selection: &mut Selection, seen: Option<i64>) -> Result<(), Error> {
    if seen.is_some_and(|seen| seen != selection.version) {
        return Err(CONFLICT.into());
    }
    db::selection::save(tx, selection).await
}
