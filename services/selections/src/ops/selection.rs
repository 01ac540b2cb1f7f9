//! Use cases of the owners of selections and of their collaborators.

use std::num::NonZeroU32;

use ::db::{Conn, Tx};
use auth::{Actor, UserId};
use messaging::outbox;
use rand::CryptoRng;
use time::OffsetDateTime;

use crate::db;
use crate::domain::{
    ChangedField, Description, Item, ItemOrder, Link, PropertyObjectId, PublicCode, Selection, SelectionId,
    Title,
};
use crate::error::{CODE_UNAVAILABLE, CONFLICT, Error, FAVORITES_EMPTY, LIMIT_EXCEEDED, NOT_FOUND};
use crate::events::{SelectionCreated, SelectionDeleted, SelectionItemAdded, SelectionUpdated};

/// Title and description of a selection.
pub struct Metadata {
    pub title: Title,
    pub description: Option<Description>,
}

/// Creates a selection, and publishes no event for its items (RULE-SEL-029).
///
/// # Errors
/// - [`LIMIT_EXCEEDED`] if the actor is at the limit of selections.
/// - [`CODE_UNAVAILABLE`] if every generated code is taken.
/// - [`ADDED_ITEMS_LIMIT_EXCEEDED`](crate::error::ADDED_ITEMS_LIMIT_EXCEEDED) above `max_added`
///   items of the actor in this hour.
pub async fn create_selection(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    random: &mut impl CryptoRng,
    metadata: Metadata,
    order: &ItemOrder,
    max_added: Option<NonZeroU32>,
) -> Result<Selection, Error> {
    reserve(tx, actor.user_id).await?;
    let selection = insert(tx, actor, now, random, metadata, order, max_added).await?;
    outbox::append(tx, &SelectionCreated::of(&selection)).await?;
    Ok(selection)
}

/// Creates a selection from the current favorites, in the order in which they were marked.
///
/// # Errors
/// - [`FAVORITES_EMPTY`] if the actor has no favorites.
/// - [`LIMIT_EXCEEDED`] if the actor is at the limit of selections.
/// - [`CODE_UNAVAILABLE`] if every generated code is taken.
/// - [`ADDED_ITEMS_LIMIT_EXCEEDED`](crate::error::ADDED_ITEMS_LIMIT_EXCEEDED) above `max_added`
///   items of the actor in this hour.
pub async fn create_selection_from_favorites(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    random: &mut impl CryptoRng,
    metadata: Metadata,
    max_added: Option<NonZeroU32>,
) -> Result<Selection, Error> {
    let favorites = db::favorite::find_all(tx.conn(), actor.user_id).await?;
    if favorites.is_empty() {
        return Err(FAVORITES_EMPTY.into());
    }
    copy(tx, actor, now, random, metadata, favorites, max_added).await
}

/// Creates the actor's own copy of a selection. Without a title the copy has the same one.
///
/// # Errors
/// - [`NOT_FOUND`] if the actor can edit no such selection.
/// - [`LIMIT_EXCEEDED`] if the actor is at the limit of selections.
/// - [`CODE_UNAVAILABLE`] if every generated code is taken.
/// - [`ADDED_ITEMS_LIMIT_EXCEEDED`](crate::error::ADDED_ITEMS_LIMIT_EXCEEDED) above `max_added`
///   items of the actor in this hour.
pub async fn duplicate_selection(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    random: &mut impl CryptoRng,
    id: SelectionId,
    title: Option<Title>,
    max_added: Option<NonZeroU32>,
) -> Result<Selection, Error> {
    let Selection { title: same_title, description, items, .. } = find_editable(tx.conn(), actor, id).await?;
    let metadata = Metadata { title: title.unwrap_or(same_title), description };
    let objects = items.into_iter().map(|item| item.property_object_id).collect();
    copy(tx, actor, now, random, metadata, objects, max_added).await
}

/// Creates a selection of these objects, and publishes an event for each item (RULE-SEL-029).
async fn copy(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    random: &mut impl CryptoRng,
    metadata: Metadata,
    objects: Vec<PropertyObjectId>,
    max_added: Option<NonZeroU32>,
) -> Result<Selection, Error> {
    reserve(tx, actor.user_id).await?;
    let order = ItemOrder::parse(objects.into_iter().map(|id| (id, None)).collect())?;
    let selection = insert(tx, actor, now, random, metadata, &order, max_added).await?;
    outbox::append(tx, &SelectionCreated::of(&selection)).await?;
    outbox::append_all(tx, &SelectionItemAdded::of(&selection, &selection.items)).await?;
    Ok(selection)
}

/// Counts one more selection of the owner (INV-SEL-007).
async fn reserve(tx: &mut Tx, owner: UserId) -> Result<(), Error> {
    if db::owner::reserve_selection(tx, owner).await? { Ok(()) } else { Err(LIMIT_EXCEEDED.into()) }
}

/// Inserts a selection and records the present data of its objects. Generates another code if the
/// code is taken (INV-SEL-005).
async fn insert(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    random: &mut impl CryptoRng,
    metadata: Metadata,
    order: &ItemOrder,
    max_added: Option<NonZeroU32>,
) -> Result<Selection, Error> {
    let code = PublicCode::generate(random);
    let mut selection = Selection::new(actor.user_id, code, metadata.title, metadata.description, order, now);
    count_added_items(tx, actor, now, &selection.items, max_added).await?;
    let mut regenerations = 0;
    while !db::selection::insert(tx, &selection).await? {
        if regenerations == PublicCode::MAX_REGENERATIONS {
            return Err(CODE_UNAVAILABLE.into());
        }
        regenerations += 1;
        selection.public_code = PublicCode::generate(random);
    }
    db::added_object::record(tx, selection.id, &selection.items).await?;
    Ok(selection)
}

/// Counts the items that the actor adds, if their number has a limit. A refusal rolls the change
/// back.
async fn count_added_items(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    added: &[Item],
    max: Option<NonZeroU32>,
) -> Result<(), Error> {
    let Some(max) = max.filter(|_| !added.is_empty()) else { return Ok(()) };
    let count = i32::try_from(added.len()).unwrap_or(i32::MAX);
    let added = db::owner::count_added_items(tx, actor.user_id, count, now).await?;
    Ok(added.check(max, now)?)
}

/// Replaces title and description.
///
/// # Errors
/// - [`NOT_FOUND`] if the actor can edit no such selection.
/// - [`CONFLICT`] if `version` is outdated, or if another change committed first.
pub async fn update_selection(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: SelectionId,
    version: Option<i64>,
    metadata: Metadata,
) -> Result<Selection, Error> {
    let mut selection = find_editable(tx.conn(), actor, id).await?;
    let changed_fields = selection.replace_metadata(metadata.title, metadata.description, now);
    if changed_fields.is_empty() {
        return Ok(selection);
    }
    save(tx, actor, &mut selection, version).await?;
    outbox::append(tx, &SelectionUpdated::of(&selection, changed_fields)).await?;
    Ok(selection)
}

/// Replaces the list of items.
///
/// # Errors
/// - [`NOT_FOUND`] if the actor can edit no such selection.
/// - [`CONFLICT`] if `version` is outdated, or if another change committed first.
/// - [`ADDED_ITEMS_LIMIT_EXCEEDED`](crate::error::ADDED_ITEMS_LIMIT_EXCEEDED) above `max_added`
///   items of the actor in this hour.
pub async fn replace_selection_items(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: SelectionId,
    version: Option<i64>,
    order: &ItemOrder,
    max_added: Option<NonZeroU32>,
) -> Result<Selection, Error> {
    let mut selection = find_editable(tx.conn(), actor, id).await?;
    let Some(added) = selection.replace_items(order, now) else { return Ok(selection) };
    save(tx, actor, &mut selection, version).await?;
    count_added_items(tx, actor, now, &added, max_added).await?;
    record_and_publish_items(tx, &selection, &added).await?;
    Ok(selection)
}

/// Adds an object at the end of the list. An object in the list stays where it is.
///
/// # Errors
/// - [`NOT_FOUND`] if the actor can edit no such selection.
/// - [`ITEMS_LIMIT_EXCEEDED`](crate::error::ITEMS_LIMIT_EXCEEDED) if the list is full.
/// - [`ADDED_ITEMS_LIMIT_EXCEEDED`](crate::error::ADDED_ITEMS_LIMIT_EXCEEDED) above `max_added`
///   items of the actor in this hour.
pub async fn add_selection_item(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: SelectionId,
    object: PropertyObjectId,
    max_added: Option<NonZeroU32>,
) -> Result<Selection, Error> {
    let mut selection = lock_editable(tx, actor, id).await?;
    let Some(added) = selection.add_item(object, now)?.map(|added| [added]) else { return Ok(selection) };
    save(tx, actor, &mut selection, None).await?;
    count_added_items(tx, actor, now, &added, max_added).await?;
    record_and_publish_items(tx, &selection, &added).await?;
    Ok(selection)
}

/// Removes an object from the list, if it is there.
///
/// # Errors
/// [`NOT_FOUND`] if the actor can edit no such selection.
pub async fn remove_selection_item(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: SelectionId,
    object: PropertyObjectId,
) -> Result<Selection, Error> {
    let mut selection = lock_editable(tx, actor, id).await?;
    if selection.remove_item(object, now) {
        save(tx, actor, &mut selection, None).await?;
        record_and_publish_items(tx, &selection, &[]).await?;
    }
    Ok(selection)
}

/// Publishes a change of the items. Records the present data of the added objects, and deletes that
/// of the removed ones.
async fn record_and_publish_items(tx: &mut Tx, selection: &Selection, added: &[Item]) -> Result<(), Error> {
    db::added_object::retain(tx, selection.id, &selection.items).await?;
    db::added_object::record(tx, selection.id, added).await?;
    outbox::append(tx, &SelectionUpdated::of(selection, vec![ChangedField::Items])).await?;
    outbox::append_all(tx, &SelectionItemAdded::of(selection, added)).await?;
    Ok(())
}

/// Replaces the state of the link.
///
/// # Errors
/// - [`NOT_FOUND`] if the actor does not own such a selection.
/// - [`CONFLICT`] if `version` is outdated, or if another change committed first.
pub async fn replace_selection_link(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: SelectionId,
    version: Option<i64>,
    link: Link,
) -> Result<Selection, Error> {
    let mut selection = find_own(tx.conn(), actor, id).await?;
    if selection.replace_link(link, now) {
        save(tx, actor, &mut selection, version).await?;
        outbox::append(tx, &SelectionUpdated::of(&selection, vec![ChangedField::Link])).await?;
    }
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
    let mut selection = find_own(tx.conn(), actor, id).await?;
    selection.delete(now);
    if let Err(error) = save(tx, actor, &mut selection, None).await {
        // The loser of a concurrent delete returns 404.
        find_own(tx.conn(), actor, id).await?;
        return Err(error);
    }
    db::collaborator::delete_all(tx, id).await?;
    db::added_object::retain(tx, id, &[]).await?;
    db::owner::release_selection(tx, actor.user_id).await?;
    outbox::append(tx, &SelectionDeleted::of(&selection)).await?;
    Ok(())
}

/// Returns true if the actor owns the selection and has not deleted it.
pub fn is_own(selection: &Selection, actor: &Actor) -> bool {
    selection.owner_user_id == actor.user_id && selection.deleted_at.is_none()
}

/// Returns the actor's selection. Every other one counts as missing (INV-SEL-002).
///
/// # Errors
/// [`NOT_FOUND`] if the actor does not own such a selection.
pub async fn find_own(conn: &mut Conn, actor: &Actor, id: SelectionId) -> Result<Selection, Error> {
    let selection = db::selection::find(conn, id).await?.filter(|found| is_own(found, actor));
    selection.ok_or_else(|| NOT_FOUND.into())
}

/// Returns a selection that the actor owns or edits as a collaborator. Every other one counts as
/// missing.
///
/// # Errors
/// [`NOT_FOUND`] if the actor can edit no such selection.
pub async fn find_editable(conn: &mut Conn, actor: &Actor, id: SelectionId) -> Result<Selection, Error> {
    let selection = db::selection::find(conn, id).await?;
    let selection = selection.filter(|found| found.deleted_at.is_none()).ok_or(NOT_FOUND)?;
    if selection.owner_user_id == actor.user_id
        || db::collaborator::is_collaborator(conn, selection.id, actor.user_id).await?
    {
        return Ok(selection);
    }
    Err(NOT_FOUND.into())
}

/// Returns a selection as [`find_editable`] does, and locks it for a change without a version.
async fn lock_editable(tx: &mut Tx, actor: &Actor, id: SelectionId) -> Result<Selection, Error> {
    let selection = db::selection::lock_editable(tx, id, actor.user_id).await?;
    selection.ok_or_else(|| NOT_FOUND.into())
}

/// Saves the actor's change if the row still has the version that was read.
///
/// # Errors
/// [`CONFLICT`] if the row has another version, or if the caller's `version` is not the stored one.
async fn save(
    tx: &mut Tx,
    actor: &Actor,
    selection: &mut Selection,
    version: Option<i64>,
) -> Result<(), Error> {
    if version.is_some_and(|version| version != selection.version) {
        return Err(CONFLICT.into());
    }
    selection.updated_by_user_id = actor.user_id;
    db::selection::save(tx, selection).await
}
