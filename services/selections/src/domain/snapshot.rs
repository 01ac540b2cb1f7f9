//! Immutable copies of selections for posts.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;
use values::{Code, Money};

use super::{Item, PropertyObjectId, Selection};
use crate::error::{SOURCE_DELETED, SOURCE_EMPTY};

values::text_enum! {
    /// Reason for detaching a snapshot.
    pub enum DetachReason {
        BlockReplaced,
        PostDeleted,
    }
}

/// Data of a property object for readers, as its last event published it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ShownObject {
    pub project_id: Option<Uuid>,
    pub project_name: Option<String>,
    pub building_id: Option<Uuid>,
    pub building_name: Option<String>,
    pub number: Option<String>,
    pub rooms: Option<i32>,
    pub floor: Option<i32>,
    /// Area in square metres, with two decimal places.
    pub area_total: Option<f64>,
    pub price: Option<Money>,
    pub status: Option<String>,
    pub layout_file_id: Option<Uuid>,
}

impl ShownObject {
    /// Returns true if a text contains a NUL.
    ///
    /// PostgreSQL stores a NUL in a `json` document, but fails when it reads the document.
    pub fn has_nul(&self) -> bool {
        let texts = [&self.project_name, &self.building_name, &self.number, &self.status];
        texts.into_iter().flatten().any(|text| text.contains('\0'))
    }
}

/// A frozen item. An object that was not public or not in the replica keeps its id alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SnapshotItem {
    pub property_object_id: PropertyObjectId,
    pub sort_order: u32,
    pub shown: Option<ShownObject>,
}

/// An item of a snapshot as readers see it now.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SnapshotItemView {
    property_object_id: PropertyObjectId,
    /// Position in the list, from 0 and without gaps.
    sort_order: u32,
    /// The frozen data of the object. `null` if it is withheld, or if the object was not public
    /// when the snapshot was taken.
    shown: Option<ShownObject>,
    /// True if the snapshot has data of the object, and the object is not public now.
    withheld: bool,
}

impl Selection {
    /// Checks that the selection can be the source of a snapshot (INV-SNP-002).
    ///
    /// # Errors
    /// [`SOURCE_DELETED`] if it is deleted, [`SOURCE_EMPTY`] if it has no items.
    pub fn check_source(&self) -> Result<(), Code> {
        if self.deleted_at.is_some() {
            return Err(SOURCE_DELETED);
        }
        if self.items.is_empty() {
            return Err(SOURCE_EMPTY);
        }
        Ok(())
    }
}

/// Returns the items of a new snapshot, with the data of the objects in `shown`.
pub fn freeze(items: &[Item], mut shown: HashMap<PropertyObjectId, ShownObject>) -> Vec<SnapshotItem> {
    items
        .iter()
        .map(|item| SnapshotItem {
            property_object_id: item.property_object_id,
            sort_order: item.sort_order,
            shown: shown.remove(&item.property_object_id),
        })
        .collect()
}

/// Withholds the data of the objects that are not in `public` (INV-DEV-6).
pub fn withhold_hidden(
    items: Vec<SnapshotItem>,
    public: &HashSet<PropertyObjectId>,
) -> Vec<SnapshotItemView> {
    let to_view = |item: SnapshotItem| {
        let withheld = item.shown.is_some() && !public.contains(&item.property_object_id);
        SnapshotItemView {
            property_object_id: item.property_object_id,
            sort_order: item.sort_order,
            shown: item.shown.filter(|_| !withheld),
            withheld,
        }
    };
    items.into_iter().map(to_view).collect()
}
