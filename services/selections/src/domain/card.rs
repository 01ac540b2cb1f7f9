//! Cards of property objects in the items of a selection.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{Item, PropertyObjectId, ShownObject};

/// Public data of a property object, as its last event published it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ObjectCard {
    #[serde(flatten)]
    pub shown: ShownObject,
    /// Id of the developer. The event names it `TenantId`.
    #[serde(alias = "TenantId")]
    developer_id: Option<Uuid>,
    /// Kind of the object.
    #[schema(examples("Flat"))]
    kind: Option<String>,
    /// True for a studio.
    #[schema(examples(false))]
    is_studio: Option<bool>,
    #[schema(examples("Finished"))]
    finishing: Option<String>,
}

impl ObjectCard {
    /// Returns true if a text contains a NUL.
    ///
    /// PostgreSQL stores a NUL in a `json` document, but fails when it reads the document.
    pub fn has_nul(&self) -> bool {
        let texts = [&self.kind, &self.finishing];
        self.shown.has_nul() || texts.into_iter().flatten().any(|text| text.contains('\0'))
    }
}

/// An item of a selection with the card of its object.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CardItem {
    #[serde(flatten)]
    item: Item,
    /// `null` unless the catalog shows the object now.
    card: Option<ObjectCard>,
}

/// Adds their cards to the items.
pub fn with_cards(items: Vec<Item>, mut cards: HashMap<PropertyObjectId, ObjectCard>) -> Vec<CardItem> {
    items.into_iter().map(|item| CardItem { card: cards.remove(&item.property_object_id), item }).collect()
}
