//! Events of selections. Snapshots publish none.

use auth::UserId;
use messaging::{Aggregate, Event};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{ChangedField, Item, PropertyObjectId, Selection, SelectionId};

const SELECTION: Aggregate = Aggregate { name: "Selection", table: "selection", key: "id" };

/// A selection was created from a list of objects, from favorites or as a duplicate.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.selections.selection-created.v1", version = 1, aggregate = SELECTION, key = selection_id)]
pub struct SelectionCreated {
    selection_id: SelectionId,
    owner_user_id: UserId,
    public_code: String,
    title: String,
    items_count: usize,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
}

impl SelectionCreated {
    pub fn of(selection: &Selection) -> Self {
        Self {
            selection_id: selection.id,
            owner_user_id: selection.owner_user_id,
            public_code: selection.public_code.to_string(),
            title: selection.title.as_str().to_owned(),
            items_count: selection.items.len(),
            created_at: selection.created_at,
        }
    }
}

/// Title, description, items or public link of a selection changed.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.selections.selection-updated.v1", version = 1, aggregate = SELECTION, key = selection_id)]
pub struct SelectionUpdated {
    selection_id: SelectionId,
    changed_fields: Vec<ChangedField>,
    items_count: usize,
    #[schema(minimum = 1)]
    version: i64,
    #[serde(with = "time::serde::rfc3339")]
    updated_at: OffsetDateTime,
}

impl SelectionUpdated {
    pub fn of(selection: &Selection, changed_fields: Vec<ChangedField>) -> Self {
        Self {
            selection_id: selection.id,
            changed_fields,
            items_count: selection.items.len(),
            version: selection.version,
            updated_at: selection.updated_at,
        }
    }
}

/// A selection has an object that was not in its list before.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.selections.selection-item-added.v1", version = 1, aggregate = SELECTION, key = selection_id)]
pub struct SelectionItemAdded {
    selection_id: SelectionId,
    property_object_id: PropertyObjectId,
    sort_order: u32,
    /// Version of the selection with this item. It never decreases within a key.
    #[schema(minimum = 1)]
    version: i64,
}

impl SelectionItemAdded {
    pub fn of(selection: &Selection, items: &[Item]) -> Vec<Self> {
        items
            .iter()
            .map(|item| Self {
                selection_id: selection.id,
                property_object_id: item.property_object_id,
                sort_order: item.sort_order,
                version: selection.version,
            })
            .collect()
    }
}

/// A selection was deleted. References to it still resolve.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.selections.selection-deleted.v1", version = 1, aggregate = SELECTION, key = selection_id)]
pub struct SelectionDeleted {
    selection_id: SelectionId,
    owner_user_id: UserId,
    /// Time of the deletion, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    deleted_at: OffsetDateTime,
}

impl SelectionDeleted {
    pub fn of(selection: &Selection) -> Self {
        let deleted_at = selection.deleted_at.unwrap_or(selection.updated_at);
        Self { selection_id: selection.id, owner_user_id: selection.owner_user_id, deleted_at }
    }
}
