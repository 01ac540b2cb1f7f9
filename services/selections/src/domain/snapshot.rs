//! A snapshot: what a selection was when a post took it up.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;
use values::{Code, Money};

use super::{Item, PropertyObjectId, Selection};
use crate::error::{SOURCE_DELETED, SOURCE_EMPTY};

values::text_enum! {
    /// Why a block let its snapshot go.
    pub enum DetachReason {
        BlockReplaced,
        PostDeleted,
    }
}

/// What a property object shows to the public, as its last event told.
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
    /// Square metres, two decimal places.
    pub area_total: Option<f64>,
    pub price: Option<Money>,
    pub status: Option<String>,
    pub layout_file_id: Option<Uuid>,
}

impl ShownObject {
    /// Whether there is a NUL in its texts. PostgreSQL keeps one in a document, and fails at it when it looks inside.
    pub fn has_nul(&self) -> bool {
        let texts = [&self.project_name, &self.building_name, &self.number, &self.status];
        texts.into_iter().flatten().any(|text| text.contains('\0'))
    }
}

/// An item as it was frozen. An object that was not known then has its id alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SnapshotItem {
    pub property_object_id: PropertyObjectId,
    /// From 0, without gaps.
    pub sort_order: u32,
    pub shown: Option<ShownObject>,
}

impl Selection {
    /// INV-SNP-002: a snapshot is taken only of an active, non-empty selection.
    ///
    /// # Errors
    /// [`SOURCE_DELETED`], [`SOURCE_EMPTY`]
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

/// The items with what each object shows now.
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
