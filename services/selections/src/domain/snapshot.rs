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
    /// A status of a property object: `Available`, `Reserved`, `Booked`, `Sold` or `Unavailable`.
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

/// An item of a snapshot. `shown` is `None` if the object was not public or not in the copy.
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
pub fn to_snapshot_items(
    items: &[Item],
    mut shown: HashMap<PropertyObjectId, ShownObject>,
) -> Vec<SnapshotItem> {
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

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use serde_json::json;
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::{ShownObject, SnapshotItem, to_snapshot_items, withhold_hidden};
    use crate::domain::{Item, PropertyObjectId};

    fn id(number: u128) -> PropertyObjectId {
        Uuid::from_u128(number).into()
    }

    fn shown(number: &str) -> ShownObject {
        serde_json::from_value(json!({"Number": number})).unwrap()
    }

    fn frozen(number: u128, sort_order: u32, shown: Option<ShownObject>) -> SnapshotItem {
        SnapshotItem { property_object_id: id(number), sort_order, shown }
    }

    /// A snapshot has the items in their order. An object without data has only its id.
    #[test]
    fn snapshot_has_the_data_of_public_objects() {
        let added_at = OffsetDateTime::UNIX_EPOCH;
        let item = |number, sort_order| Item { property_object_id: id(number), sort_order, added_at };
        let frozen_items =
            to_snapshot_items(&[item(2, 0), item(1, 1)], HashMap::from([(id(1), shown("A1"))]));
        assert_eq!(frozen_items, [frozen(2, 0, None), frozen(1, 1, Some(shown("A1")))]);
    }

    /// The data of an object that is not public now is withheld. An object without data withholds
    /// nothing.
    #[test]
    fn data_of_a_hidden_object_is_withheld() {
        let items =
            vec![frozen(1, 0, Some(shown("A1"))), frozen(2, 1, Some(shown("A2"))), frozen(3, 2, None)];
        let views = withhold_hidden(items, &HashSet::from([id(1)]));
        let views: Vec<_> = views
            .into_iter()
            .map(|view| (view.property_object_id, view.sort_order, view.shown, view.withheld))
            .collect();
        let expected =
            [(id(1), 0, Some(shown("A1")), false), (id(2), 1, None, true), (id(3), 2, None, false)];
        assert_eq!(views, expected);
    }
}
