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
    /// Kind of the object: `Flat`, `Apartment`, `Parking`, `Storage` or `Commercial`.
    #[schema(examples("Flat"))]
    kind: Option<String>,
    /// True for a studio.
    #[schema(examples(false))]
    is_studio: Option<bool>,
    /// Finishing of the rooms: `None`, `PreFinish`, `Finished` or `Furnished`.
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

/// Adds to each item the card of its object.
pub fn with_cards(items: Vec<Item>, mut cards: HashMap<PropertyObjectId, ObjectCard>) -> Vec<CardItem> {
    items.into_iter().map(|item| CardItem { card: cards.remove(&item.property_object_id), item }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::{ObjectCard, with_cards};
    use crate::domain::{Item, PropertyObjectId};

    /// A NUL is found in each text of a card.
    #[test]
    fn nul_in_any_text_of_a_card_is_found() {
        for member in ["ProjectName", "BuildingName", "Number", "Status", "Kind", "Finishing"] {
            let has_nul = |text: &str| {
                let card: ObjectCard = serde_json::from_value(json!({ member: text })).unwrap();
                card.has_nul()
            };
            assert!(has_nul("a\0b") && !has_nul("ab"), "{member}");
        }
    }

    /// An item has the card of its own object, and none if the catalog does not show the object.
    #[test]
    fn item_has_the_card_of_its_object() {
        let [shown, hidden] = [1, 2].map(|number| PropertyObjectId::from(Uuid::from_u128(number)));
        let item = |property_object_id, sort_order| Item {
            property_object_id,
            sort_order,
            added_at: OffsetDateTime::UNIX_EPOCH,
        };
        let card: ObjectCard = serde_json::from_value(json!({"Kind": "Flat"})).unwrap();
        let items = vec![item(hidden, 0), item(shown, 1)];
        let with_cards = with_cards(items.clone(), HashMap::from([(shown, card.clone())]));
        let found: Vec<_> =
            with_cards.into_iter().map(|with_card| (with_card.item, with_card.card)).collect();
        assert_eq!(found, [(items[0].clone(), None), (items[1].clone(), Some(card))]);
    }
}
